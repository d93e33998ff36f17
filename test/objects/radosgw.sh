#!/usr/bin/env bash
# Starts a real S3 server on this machine: Ceph's S3 server over a storage daemon that keeps
# everything in memory (Debian: ceph-mon, ceph-osd, radosgw). Prints the variables of its client, and
# stays until its standard input ends, or it is killed.
#
#   test/objects/radosgw.sh DIRECTORY PORT      a new directory; a free port, and the next two
set -euo pipefail
home=$1 port=$2
ip=127.0.0.1
mkdir -p "$home"/{mon,osd,run}
fsid=$(cat /proc/sys/kernel/random/uuid)

cat >"$home/ceph.conf" <<END
[global]
fsid = $fsid
mon host = [v2:$ip:$((port + 1)),v1:$ip:$((port + 2))]
public network = 127.0.0.0/8
keyring = $home/keyring
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd objectstore = memstore
osd op num shards = 2
memstore device bytes = 4294967296
mon data = $home/mon
osd data = $home/osd
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data avail crit = 1
run dir = $home/run
admin socket = $home/run/\$name.asok
log file = $home/\$name.log
rgw frontends = beast endpoint=$ip:$port tcp_nodelay=1
rgw thread pool size = 64
rgw enable usage log = false
END
pids=()
stop() {
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
}
trap stop EXIT
trap 'exit 0' INT TERM

monmaptool --create --fsid "$fsid" --addv a "[v2:$ip:$((port + 1)),v1:$ip:$((port + 2))]" "$home/monmap" >"$home/setup.log"
ceph-authtool --create-keyring "$home/keyring" --gen-key -n mon. --cap mon 'allow *' >>"$home/setup.log"
ceph-authtool "$home/keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' >>"$home/setup.log"
ceph-authtool "$home/keyring" --gen-key -n osd.0 --cap mon 'allow profile osd' --cap osd 'allow *' >>"$home/setup.log"
ceph-mon --conf "$home/ceph.conf" --mkfs -i a --monmap "$home/monmap" --keyring "$home/keyring" >>"$home/setup.log" 2>&1
ceph-mon --conf "$home/ceph.conf" -i a -f >>"$home/setup.log" 2>&1 &
pids+=($!)
ceph-osd --conf "$home/ceph.conf" -i 0 --mkfs --osd-uuid "$(cat /proc/sys/kernel/random/uuid)" >>"$home/setup.log" 2>&1
ceph-osd --conf "$home/ceph.conf" -i 0 -f >>"$home/setup.log" 2>&1 &
pids+=($!)
timeout 120 radosgw-admin --conf "$home/ceph.conf" user create --uid osiris --display-name osiris \
  --access-key OSIRIS --secret-key osiris-secret >>"$home/setup.log" 2>&1
radosgw --conf "$home/ceph.conf" -n client.admin -f >>"$home/setup.log" 2>&1 &
pids+=($!)
for attempt in $(seq 1200); do
  (exec 3<>"/dev/tcp/$ip/$port") 2>/dev/null && break
  [ "$attempt" -lt 1200 ] || { tail -n 20 "$home"/setup.log >&2; exit 1; }
  sleep 0.1
done
echo "AWS_ENDPOINT_URL_S3=http://$ip:$port AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=OSIRIS AWS_SECRET_ACCESS_KEY=osiris-secret"
cat >/dev/null
