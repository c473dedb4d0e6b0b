"""Feed forged indexes to everything that reads one: python tests/fuzz/fuzz_index.py --seconds 600

A case is a good index and a few edits of its files: values of arrays, shapes, metadata, headers, the manifest.
Checksums are made right after each edit, as an attacker would. Two outcomes are allowed: answers whose ids are
ids of the index or none, or a FormatError that names a file. No other exception, no crash, no hang, nothing of
another index.

Cases are drawn from a seed, and are the same for the same seed. They run in a process of their own, so that a
crash is counted and the next case goes on. `corpus.jsonl` holds cases that crashed or gave a wrong answer once.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, takewhile
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

sys.path.insert(0, str(Path(__file__).parent.parent))

from forged_cases import Case, attacks, cases
from good_indexes import Indexes, good_indexes
from readers import outcome

CORPUS = Path(__file__).parent / "corpus.jsonl"
# Two-digit seconds mean that a case hangs; sanitized builds are slow to start.
MOST_SECONDS = 60.0
# What may come of a case; the last if one edit broke what the next one needs.
FINE = ("answered", "refused", "unwritable")


def work(directory: Path) -> None:
    """Cases from standard input, what came of them to standard output."""
    faulthandler.enable()
    indexes = Indexes(directory)
    for line in sys.stdin:
        print(outcome(json.loads(line), indexes).replace("\n", " "), flush=True)


class Worker:
    """A process that tries cases."""

    def __init__(self, directory: Path) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        command = [sys.executable, __file__, "--worker", str(directory)]
        self.process = subprocess.Popen(command, text=True, **pipes)
        self.said: SimpleQueue[str] = SimpleQueue()
        self.listener = Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            self.said.put(line.rstrip("\n"))
        self.said.put("")

    def outcome(self, case: Case) -> str:
        """What came of a case; "crashed" or "hung" if nothing did."""
        try:
            self.process.stdin.write(json.dumps(case) + "\n")
            self.process.stdin.flush()
            said = self.said.get(timeout=MOST_SECONDS)
        except Empty:
            return "hung"
        except BrokenPipeError:
            said = ""
        if said:
            return said
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        telling = [line for line in text.splitlines() if "ERROR" in line or "error" in line or " in " in line]
        return f"crashed: code {self.process.wait()} {' | '.join(telling[:6])}"

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.listener.join()
        with suppress(BrokenPipeError):
            self.process.communicate()
        self.errors.close()


def bad_cases(tried: Iterable[Case], indexes: Indexes, counts: Counter[str]) -> Iterator[tuple[Case, str]]:
    """Try cases one after the other; those that go wrong, and how."""
    process = Worker(indexes.directory)
    try:
        for case in tried:
            said = process.outcome(case)
            counts[said.split(":")[0]] += 1
            if said in FINE:
                continue
            yield case, said
            if not said.startswith("wrong"):
                process.stop()
                process = Worker(indexes.directory)
    finally:
        process.stop()


def corpus() -> list[Case]:
    """Cases that went wrong once."""
    return [json.loads(line) for line in CORPUS.read_text().splitlines()]


def main() -> int:
    """Try cases for some time; 1 if any went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, help="a file that cases that go wrong are added to")
    parser.add_argument("--figures", type=Path, help="a file for what was tried and what came of it")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work(options.worker)
        return 0
    counts: Counter[str] = Counter()
    end = time.monotonic() + options.seconds
    with good_indexes() as indexes:
        endless = takewhile(lambda _: time.monotonic() < end, cases(options.seed, indexes))
        for case, said in bad_cases(chain(corpus(), attacks(), endless), indexes, counts):
            print(f"{said}\n    {json.dumps(case)}", flush=True)
            if options.found is not None:
                with options.found.open("a") as file:
                    file.write(json.dumps(case) + "\n")
    print(f"seed {options.seed}, {counts.total()} cases: {dict(counts)}")
    if options.figures is not None:
        figures = {
            "seed": options.seed,
            "seconds": options.seconds,
            "cases": counts.total(),
            "outcomes": counts,
        }
        options.figures.write_text(json.dumps(figures))
    return int(any(kind not in FINE for kind in counts))


if __name__ == "__main__":
    sys.exit(main())
