#!/bin/sh
# Before the files are removed. Called by dpkg with "remove" or "upgrade", by rpm
# with the number of versions that stay. An upgrade stops nothing.
set -e

case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac

[ -d /run/systemd/system ] || exit 0
# The worker ends its executors, reports that and leaves; the master hands over.
systemctl disable --now hearth-worker hearth-master || true
