#!/bin/sh
# Installs Debian's Chromium and a font for the tests of pages and dashboards, unless a Chromium is there.
set -eu

if [ -n "${PERSON_ETL_TEST_CHROMIUM:-}" ]; then exit 0; fi
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  if command -v "$name" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "Install Chromium or Google Chrome, or set PERSON_ETL_TEST_CHROMIUM to its path." >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core
