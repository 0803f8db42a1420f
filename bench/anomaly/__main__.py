"""The anomaly model on the Numenta Anomaly Benchmark, beside others. Prints Markdown.

    python -m bench.anomaly [--no-held-out]

Ours with the one threshold that is shipped; the others with the threshold that is best for all
labels at once, which they would not have in the field.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from bench.anomaly import corpus as nab
from bench.anomaly import cost, noise, rivals, variants
from engine.baselines.anomaly.model import ANOMALY_THRESHOLD


def main() -> int:
    """Run all parts; 0, with a reason where the corpus is absent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-held-out", action="store_true", help="leave the long part out")
    args = parser.parse_args()
    _print_cost()
    _print_noise()
    corpus = nab.load()
    if corpus is None:
        print(f"skipped: no labelled series at {nab.shared()} (set STALLWATCH_SHARED)")
        return 0
    _print_detectors(corpus)
    _print_sensitivity(corpus)
    if not args.no_held_out:
        score, chosen = variants.held_out(corpus)
        print(f"\nChosen on the other categories, judged on each: Standard {score:.1f}")
        for category, numbers in chosen.items():
            print(f"- {category}: " + ", ".join(f"{k} {v:g}" for k, v in numbers.items()))
    return 0


def _print_cost() -> None:
    told = cost.measure()
    print("\n| | CPU a point |\n|---|---|")
    print(f"| one series over an axis | {told.alone:.1f} µs |")
    print(f"| {cost.SERIES} series over an axis, together | {told.together:.1f} µs |")
    print(f"| {cost.SERIES} series, one point of each at a time | {told.live:.1f} µs |")
    if told.rival is not None:
        ratios = f"{told.together / told.rival:.1f} to {told.alone / told.rival:.1f} times as dear"
        print(f"| river StandardAbsoluteDeviation | {told.rival:.1f} µs: ours is {ratios} |")
    print(f"\nA series holds {told.memory:.0f} bytes of memory; {told.state} are saved.")


def _print_noise() -> None:
    asked = " | ".join(f"`>= {score:g}`" for score in noise.ASKED)
    print(f"\n| onsets a day of one series at 10 s | {asked} |\n|---{'|---' * len(noise.ASKED)}|")
    for kind, counts in noise.onsets_a_day().items():
        print(f"| {kind} noise | {' | '.join(f'{count:.2f}' for count in counts)} |")


def _print_detectors(corpus: nab.Corpus) -> None:
    print("\n| detector | threshold | Standard | low FP | low FN | windows | false alarms |")
    print("|---|---|---|---|---|---|---|")
    ours = variants.scores(corpus)
    for threshold, name in ((ANOMALY_THRESHOLD, "shipped"), (None, "best in hindsight")):
        print(_row("**stallwatch**", name, corpus.score(ours, threshold=threshold)))
    for name, detector in rivals.rivals().items():
        scores = {one.name: detector(one) for one in corpus.series}
        print(_row(name, "best in hindsight", corpus.score(scores, threshold=None)))
    told = corpus.score(ours, threshold=ANOMALY_THRESHOLD)["standard"]["categories"]
    print("\n| category | Standard | windows | false alarms |\n|---|---|---|---|")
    for category, part in told.items():
        figure = "" if part["score"] is None else f"{part['score']:.1f}"
        windows = f"{part['windows_hit']} of {part['windows']}"
        print(f"| {category} | {figure} | {windows} | {part['fp_points']} |")


def _row(name: str, threshold: str, told: dict[str, Any]) -> str:
    figures = [f"{told[profile]['score']:.1f}" for profile in nab.PROFILES]
    first = told["standard"]
    cells = [name, threshold, *figures, f"{first['windows_hit']} of {first['windows']}"]
    return f"| {' | '.join([*cells, str(first['fp_points'])])} |"


def _print_sensitivity(corpus: nab.Corpus) -> None:
    print("\n| number | Standard, by what it is set to |\n|---|---|")
    rows: dict[str, list[str]] = {}
    for name, value, score in variants.sensitivity(corpus):
        rows.setdefault(name, []).append(f"{value:g}: {score:.1f}")
    for name, cells in rows.items():
        print(f"| `{name}` | {', '.join(cells)} |")


if __name__ == "__main__":
    sys.exit(main())
