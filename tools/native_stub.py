"""Write src/pcpq/_core.pyi from the built extension; with --check, fail if it is out of date."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).parent.parent / "src" / "pcpq" / "_core.pyi"


def generate() -> str:
    """Return the stub of the installed extension."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "_core.pyi"
        subprocess.run(
            [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "pcpq._core", "-o", str(out)], check=True
        )
        return out.read_text()


def main() -> None:
    """Write or check the stub."""
    fresh = generate()
    if "--check" not in sys.argv:
        STUB.write_text(fresh)
    elif not STUB.exists() or STUB.read_text() != fresh:
        sys.exit(f"{STUB.name} is out of date: run `make stub` and commit it")


if __name__ == "__main__":
    main()
