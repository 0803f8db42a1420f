"""NCCL's numbers and names (nccl.h of 2.32; none changed since 2.4), and what they are called.

The place of an operation or an initialisation is its number in the program.
"""

from __future__ import annotations

OPERATIONS = (
    "AllReduce",
    "AllGather",
    "ReduceScatter",
    "Broadcast",
    "Reduce",
    "AlltoAll",
    "Gather",
    "Scatter",
    "Send",
    "Recv",
)
UNKNOWN = "unknown"
INITIALISATIONS = (
    "CommInitRank",
    "CommInitRankConfig",
    "CommInitRankScalable",
    "CommInitAll",
    "CommSplit",
    "CommShrink",
    "CommGrow",
)
FIRST_INITIALISATION = 32
OTHER_CALLS = {12: "GroupEnd", 13: "CommGetAsyncError"}
RESULTS = (
    "ncclSuccess",
    "ncclUnhandledCudaError",
    "ncclSystemError",
    "ncclInternalError",
    "ncclInvalidArgument",
    "ncclInvalidUsage",
    "ncclRemoteError",
    "ncclInProgress",
    "ncclTimeout",
)
# Bytes of one element by ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, half, float,
# double, bfloat16, float8e4m3, float8e5m2. collectives.h has the same.
ELEMENT_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
# Upper bounds of the size classes in bytes; a last class holds what is larger.
SIZE_BOUNDS = tuple(256 * 4**k for k in range(13))


def operation(number: int) -> str:
    """The name of an operation, `unknown` for a number that has none."""
    return OPERATIONS[number] if 0 <= number < len(OPERATIONS) else UNKNOWN


def call(number: int) -> str:
    """The name of any call that can fail."""
    place = number - FIRST_INITIALISATION
    if 0 <= place < len(INITIALISATIONS):
        return INITIALISATIONS[place]
    return OTHER_CALLS.get(number) or operation(number)


def result(number: int) -> str:
    """The name of an ncclResult_t; those that a later NCCL adds are `other`."""
    return RESULTS[number] if 0 <= number < len(RESULTS) else "other"
