"""The `query` function of templates: an instant query at the evaluation's time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import EvaluationError
from engine.promql.value import Axis, Scalar, Vector
from rules.promql.parser import parse
from rules.source import ProblemsError
from rules.templates import Sample, TemplateError

if TYPE_CHECKING:
    from engine.rulegroup.options import GroupOptions
    from engine.series import Queryable
    from rules.templates import QueryFunction


def query_at(queryable: Queryable, options: GroupOptions, time_ms: int) -> QueryFunction:
    """The function that templates expanded at `time_ms` query with.

    It raises TemplateError for what does not parse or cannot be evaluated.
    """
    return partial(_query, queryable, options, time_ms)


def _query(queryable: Queryable, options: GroupOptions, time_ms: int, text: str) -> list[Sample]:
    try:
        tree = parse(text)
        value = options.evaluate(tree, Axis.instant(time_ms), queryable, options.engine).value
    except ProblemsError as error:
        raise TemplateError(f"query {text!r}: {error.problems[0].message}") from None
    except EvaluationError as error:
        raise TemplateError(f"query {text!r}: {error}") from None
    if isinstance(value, Scalar):
        return [Sample({}, float(value.values[0]))]
    if not isinstance(value, Vector):
        raise TemplateError(f"query {text!r}: the result is not a vector or scalar")
    rows = np.flatnonzero(value.present[:, 0]).tolist()
    if value.order is not None:
        rows = [row for row in value.order if value.present[row, 0]]
    return [Sample(value.labels[row].to_dict(), float(value.values[row, 0])) for row in rows]
