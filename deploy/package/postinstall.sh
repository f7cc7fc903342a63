#!/bin/sh
# After the files are unpacked. Called by dpkg with "configure" and the version
# that was there, by rpm with the number of versions that there are.
#
# Nothing is started: a machine is a master, a worker or both, and which one is
# said by whoever enables the units. Nothing is stopped either: a worker takes
# the new program over in place and its executors run on.
set -e

upgrade=
case "$1" in
configure) [ -z "${2:-}" ] || upgrade=yes ;;
[1-9]*) [ "$1" -lt 2 ] || upgrade=yes ;;
*) exit 0 ;;
esac

[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload

if [ -z "$upgrade" ]; then
	echo "hearth: edit /etc/hearth/master.hcl or worker.hcl, then: systemctl enable --now hearth-master (or hearth-worker)"
	exit 0
fi
if systemctl is-active --quiet hearth-worker; then
	# Without a leader it refuses and changes nothing.
	systemctl reload hearth-worker ||
		echo "hearth: the worker runs the former version on; once the cluster has a leader: systemctl reload hearth-worker" >&2
fi
if systemctl is-active --quiet hearth-master; then
	# Other masters may be upgraded in this moment, and a majority must serve.
	echo "hearth: the master runs the former version on; one master after the other: systemctl restart hearth-master"
fi
