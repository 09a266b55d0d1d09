#!/bin/sh
# The steps that both images share: an unprivileged user, its folders, and the compiled kernels in them.
set -eu

groupadd --gid 10001 guided
useradd --uid 10001 --gid 10001 --home-dir /opt/guided/home --create-home --shell /usr/sbin/nologin guided
# A fresh volume on /weights takes the owner of this folder; without one it is root's, and the server cannot write there.
mkdir -p "$GUIDED_CACHE_DIR" "$NUMBA_CACHE_DIR" /weights
python3 /opt/guided/warm.py
# World-readable: a pod may run as another user, and copies this folder to its own volume.
chown -R 10001:10001 /opt/guided /weights
chmod -R a+rX /opt/guided
