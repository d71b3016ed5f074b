"""`python -m tests.bench [--small | --publish] [AREA...]`: measure, show, and keep with BENCH_JSON=FILE."""

from __future__ import annotations

import argparse
import compileall
import logging
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.bench import page, report
from tests.bench.areas import AREAS, measure
from tests.bench.size import SMALL

log = logging.getLogger(__name__)

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Measure the areas that are named, or all. The answer is 1 where a measurement broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of {', '.join(AREAS)}")
    parser.add_argument("--publish", action="store_true", help="write docs/performance.json and docs/performance.md")
    parser.add_argument("--small", action="store_true", help="tiny counts, which only show that an area works")
    options = parser.parse_args()
    wanted = options.areas or AREAS
    if strange := [area for area in wanted if area not in AREAS]:
        parser.error(f"there is no area {', '.join(strange)}; there are {', '.join(AREAS)}")
    if options.small:
        os.environ[SMALL] = "1"
        print("Tiny counts: this shows that an area works. The figures mean nothing, whatever their names say.\n")
    _compile()
    print(report.HEADER)
    figures, broken = {}, []
    spawning = multiprocessing.get_context("spawn")
    for area in wanted:
        started_at = time.monotonic()
        with ProcessPoolExecutor(1, mp_context=spawning) as apart:
            try:
                figures[area] = apart.submit(measure, area).result()
            except Exception:  # the boundary between measurements: one that broke does not take the others along
                log.exception("%s broke", area)
                broken.append(area)
                continue
        print(f"\n{area} ({time.monotonic() - started_at:.0f} s)")
        for figure in figures[area]:
            print("\n".join(report.lines(figure)), flush=True)
        if options.publish:
            page.publish({area: figures[area]})
    if name := os.environ.get("BENCH_JSON"):
        Path(name).write_text(report.document(figures) + "\n", "utf-8")
    if broken:
        print(f"\nbroken: {', '.join(broken)}")
    return 1 if broken else 0


def _compile() -> None:
    """Start-up is measured as an installed program starts: with its bytecode on the disk."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    for package in ("core", "runtime", "tui", "tests"):
        compileall.compile_dir(ROOT / package, quiet=1)


if __name__ == "__main__":
    sys.exit(main())
