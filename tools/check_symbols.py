"""Fail if an object compiled for one instruction set exports a symbol that the linker could use elsewhere.

An inline function that several files share becomes a weak symbol. The linker keeps one copy, possibly the one
with AVX2 instructions, and the program crashes on a processor without them. Therefore objects for an
instruction set may export only their entry point.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Check every kernels_*.o below a folder."""
    objects = sorted(Path(sys.argv[1]).rglob("kernels_*.o"))
    if not objects:
        sys.exit(f"no kernels_*.o below {sys.argv[1]}: build first")
    wrong = []
    for path in objects:
        listing = subprocess.run(
            ["nm", "--demangle", "--defined-only", str(path)], check=True, capture_output=True, text=True
        )
        for line in listing.stdout.splitlines():
            _, kind, name = line.split(maxsplit=2)
            entry = kind == "T" and name.startswith("pcpq::") and name.endswith("_kernels()")
            if kind in "WVuTBDRC" and not entry:
                wrong.append(f"{path.name}: {kind} {name}")
    if wrong:
        sys.exit("symbols that leak from ISA objects:\n" + "\n".join(wrong))
    print(f"{len(objects)} ISA objects leak no symbol")


if __name__ == "__main__":
    main()
