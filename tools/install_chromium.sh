#!/bin/sh
# Install Debian's Chromium; this needs root or sudo without a password.
set -e
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends chromium > /dev/null
