#!/bin/sh
# Debian's Chromium, by whoever may install it.
set -e
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends chromium > /dev/null
