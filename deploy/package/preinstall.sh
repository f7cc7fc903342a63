#!/bin/sh
# Before the files are unpacked: some of them belong to this user. Called by
# dpkg with "install" or "upgrade", by rpm with the number of versions to come.
set -e

getent group hearth >/dev/null || groupadd --system hearth
getent passwd hearth >/dev/null || useradd --system --gid hearth --no-create-home \
	--home-dir /nonexistent --shell /usr/sbin/nologin --comment Hearth hearth
