"""Fail if a C++ file does not include what it uses.

The build compiles many files as one, which hides a missing include, but an editor reads each file alone.
Therefore every file must include the standard headers of the names that it uses, and compile alone. The command
for each file is written to build/compile_commands.json, where clangd finds it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nanobind

ROOT = Path(__file__).resolve().parent.parent
ARM = platform.machine() in ("aarch64", "arm64")
# The standard header of names.
STANDARD = {
    "algorithm": (
        r"std::(sort|min|max|clamp|copy_n|fill|fill_n|count|nth_element|lower_bound|upper_bound|max_element|mismatch)\b"
    ),
    "array": r"std::array\b",
    "atomic": r"std::(atomic|memory_order_\w+)\b",
    "bit": r"std::(bit_cast|endian)\b",
    "chrono": r"std::chrono\b",
    "cmath": r"std::(sqrt|isnan|isfinite|copysign)\b",
    "cstddef": r"\b(size_t|ptrdiff_t)\b",
    "cstdint": r"\b(u?int(8|16|32|64)_t|U?INT(8|16|32|64)_(MIN|MAX))\b",
    "cstdio": r"std::(printf|setvbuf)\b",
    "cstdlib": r"std::(getenv|abort)\b",
    "cstring": r"std::(memcpy|strcmp)\b",
    "functional": r"std::function\b",
    "limits": r"std::numeric_limits\b",
    "map": r"std::map\b",
    "memory": r"std::(unique_ptr|make_unique\w*)\b",
    "numeric": r"std::iota\b",
    "optional": r"std::(optional|nullopt)\b",
    "span": r"std::span\b",
    "stdexcept": r"std::(runtime_error|invalid_argument)\b",
    "string": r"std::(string|to_string)\b",
    "type_traits": r"std::is_\w+_v\b",
    "utility": r"std::(move|pair)\b",
    "vector": r"std::vector\b",
}
COMMENTS = re.compile(r'//[^\n]*|/\*.*?\*/|"(\\.|[^"\\\n])*"', re.DOTALL)


def missing_names(path: Path) -> list[str]:
    """Return the standard headers of which a file uses names without including them."""
    text = path.read_text()
    included = set(re.findall(r"#include <(\w+)>", text))
    code = COMMENTS.sub("", text)
    return [header for header, names in STANDARD.items() if header not in included and re.search(names, code)]


def needs_compiler(path: Path) -> bool:
    """Return whether a file has to be compiled alone here, because the build does not do so."""
    elsewhere = ("avx2", "avx512") if ARM else ("neon",)
    if path.parent.name == "native" or path.match("kernels_*.cpp") or path.stem in elsewhere:
        return False
    # A source includes its own header first, so the header is checked with it.
    return path.suffix == ".cpp" or not path.with_suffix(".cpp").exists()


def command(path: Path) -> list[str]:
    """Return the command that checks a single file."""
    name = str(path.relative_to(ROOT))
    options = ["-std=c++20", "-fsyntax-only", "-w", "-xc++", "-Icpp"]
    options.append("-DPCPQ_HAVE_NEON" if ARM else "-DPCPQ_HAVE_AVX2")
    if "avx" in path.stem:
        options += ["-mavx2", "-mf16c"]
    if "avx512" in path.stem:
        options += ["-mbmi2", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vbmi", "-mavx512vnni"]
    if path.parent.name == "bindings":
        options += ["-isystem", nanobind.include_dir(), "-isystem", sysconfig.get_path("include")]
    return [os.environ.get("CXX", "c++"), *options, name]


def compile_alone(path: Path) -> str:
    """Return the errors of the compiler for a single file."""
    found = subprocess.run(command(path), cwd=ROOT, capture_output=True, text=True)
    return found.stderr if found.returncode else ""


def write_commands(files: list[Path]) -> None:
    """Write the command of every file, without the option that silences warnings."""
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    commands = [
        {
            "directory": str(ROOT),
            "file": str(path),
            "arguments": [option for option in command(path) if option != "-w"],
        }
        for path in files
    ]
    (folder / "compile_commands.json").write_text(json.dumps(commands, indent=1))


def main() -> None:
    """Check all C++ files."""
    files = sorted(path for top in ("cpp", "tests/native") for path in (ROOT / top).rglob("*.*"))
    files = [path for path in files if path.suffix in (".cpp", ".h")]
    write_commands(files)
    wrong = [f"{path.relative_to(ROOT)}: <{header}>" for path in files for header in missing_names(path)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong += [errors for errors in pool.map(compile_alone, filter(needs_compiler, files)) if errors]
    if wrong:
        sys.exit("includes that are missing:\n" + "\n".join(wrong))
    print(f"{len(files)} C++ files include what they use")


if __name__ == "__main__":
    main()
