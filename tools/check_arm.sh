#!/bin/sh
# Are all SIMD levels equal to the last bit, on this processor and, under an emulator, on 64-bit ARM? And do the two
# processors give the same answers? Builds tests/native for both and runs it.
# A missing cross compiler or emulator is installed from Debian; this needs root or sudo without a password.
set -e
cd "$(dirname "$0")/.."
folder=${1:-build/native}
compiler=aarch64-linux-gnu-g++
emulator=qemu-aarch64-static

if ! command -v $compiler > /dev/null || ! command -v $emulator > /dev/null; then
    as_root=""
    [ "$(id -u)" = 0 ] || as_root="sudo -n"
    $as_root apt-get update -qq
    $as_root apt-get install -y -qq --no-install-recommends qemu-user-static g++-aarch64-linux-gnu > /dev/null
fi

build() { # folder, options of cmake
    cmake -S . -B "$@" -DPCPQ_NATIVE_TESTS=ON > /dev/null
    cmake --build "$1" --parallel "$(nproc)" > /dev/null
}
build "$folder/here"
build "$folder/arm" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=$compiler \
    -DCMAKE_CXX_FLAGS=-Wno-psabi -DCMAKE_EXE_LINKER_FLAGS=-static

run() { # name, program; what it prints goes to a file, and is shown if it fails
    name=$1
    shift
    "$@" > "$folder/$name.txt" || { cat "$folder/$name.txt"; echo "$name: levels differ"; exit 1; }
    grep portable "$folder/$name.txt"
}
run here "$folder/here/tests/native/equal_levels"
run arm $emulator "$folder/arm/tests/native/equal_levels"

for name in here arm; do grep -v portable "$folder/$name.txt" > "$folder/$name.sums"; done
if ! diff "$folder/here.sums" "$folder/arm.sums"; then
    echo "kernels answer otherwise on the other processor"
    exit 1
fi
echo "both processors give the same answers"
