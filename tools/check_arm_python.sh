#!/bin/sh
# The extension itself on 64-bit ARM, under an emulator: Debian's Python for that processor, the wheels of NumPy and
# others, the extension cross-compiled, and tests of it. Indexes that were written on another processor are among what
# is tested. Slow, and it downloads some hundred megabytes: check_arm.sh is what CI runs.
#   sh tools/check_arm_python.sh [arguments of pytest...]
set -e
cd "$(dirname "$0")/.."
project=$PWD
[ $# -gt 0 ] || set -- --ignore tests/integrations -m arm
folder=$project/build/arm-python
root=$folder/root
python=${PYTHON:-.venv/bin/python}  # of this processor, with pip and nanobind
version=3.11
compiler=aarch64-linux-gnu-g++
command -v $compiler > /dev/null || { echo "no $compiler: tools/check_arm.sh installs it"; exit 1; }

# Debian's packages for the other processor, unpacked into a folder of the build.
if [ ! -x "$root/usr/bin/python$version" ]; then
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial" "$root"
    touch "$folder/apt/status"
    apt() {
        apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$folder/apt" \
            -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt" -o Debug::NoLocking=1 "$@" > /dev/null
    }
    apt update
    apt install -y --no-install-recommends --download-only python$version libpython$version-dev libstdc++6
    for package in "$folder"/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
fi

if [ ! -d "$folder/site" ]; then
    "$python" -m pip download --quiet --python-version $version --implementation cp --only-binary=:all: \
        --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 \
        -d "$folder/wheels" numpy safetensors scipy pyarrow duckdb pytest hypothesis scikit-learn h5py matplotlib
    for wheel in "$folder"/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$folder/site"; done
fi

# Python's configuration lies in a folder for each processor; other headers must be the compiler's own.
mkdir -p "$folder/include" "$folder/package/pcpq"
ln -sfn "$root/usr/include/aarch64-linux-gnu" "$folder/include/aarch64-linux-gnu"
cmake -S . -B "$folder/objects" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_CXX_COMPILER=$compiler -DCMAKE_CXX_FLAGS="-Wno-psabi -I$folder/include" -DPython_EXECUTABLE="$(command -v "$python")" \
    -DPython_INCLUDE_DIR="$root/usr/include/python$version" > /dev/null
cmake --build "$folder/objects" --parallel "$(nproc)" > /dev/null
ln -sfn "$project"/src/pcpq/* "$folder/package/pcpq/"
cp "$folder"/objects/_core*.so "$folder/package/pcpq/_core.so"

# Processes that tests start go through the emulator as well.
cat > "$folder/python" <<END
#!/bin/sh
export PYTHONPATH=$folder/package:$folder/site PYTHONDONTWRITEBYTECODE=1
exec qemu-aarch64-static -L $root $root/usr/bin/python$version "\$@"
END
chmod +x "$folder/python"
echo "import sys; sys.executable = '$folder/python'" > "$folder/site/sitecustomize.py"
"$folder/python" -c "from pcpq import _core; assert _core.simd_level() == 'neon', _core.simd_levels()"
"$folder/python" -m pytest -p no:cacheprovider "$@"
