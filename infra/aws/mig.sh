# shellcheck shell=bash
# Cuts each GPU of the node into MIG_INSTANCES instances of MIG_PROFILE, which infra/aws/mig.py sets above this line.
#
# cloud-init runs it at the first boot, before nodeadm starts the kubelet. It makes itself a service that comes before nodeadm at
# every boot: instances do not outlive a reboot, and on an A100 the mode itself needs one, because a virtual machine may not
# reset its GPUs.
set -euo pipefail

readonly program=/usr/local/sbin/mig-layout
readonly rebooted=/var/lib/mig-layout.rebooted

if [[ $0 != "$program" ]]; then
  install --mode 0755 "$0" "$program"
  cat >/etc/systemd/system/mig-layout.service <<UNIT
[Unit]
Description=MIG layout of the GPUs
After=nvidia-kmod-load.service nvidia-setup.service nvidia-persistenced.service nvidia-fabricmanager.service
Before=nodeadm-run.service containerd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=true
ExecStart=$program

[Install]
WantedBy=multi-user.target
UNIT
  systemctl daemon-reload
  systemctl enable --now mig-layout.service
  exit
fi

all_enabled() {
  [[ $(nvidia-smi --query-gpu=mig.mode.current --format=csv,noheader | sort --unique) == Enabled ]]
}

all_enabled || nvidia-smi -mig 1
if ! all_enabled; then
  if [[ -e $rebooted ]]; then
    echo "MIG is not enabled on all GPUs, not even after a reboot" >&2
    exit 1
  fi
  touch "$rebooted"
  systemctl reboot
  sleep infinity # so that nothing after this service starts
fi

# Not --quiet: it would leave before nvidia-smi has said everything, which then fails.
if ! nvidia-smi -L | grep '^ *MIG ' >/dev/null; then
  layout=$(printf "$MIG_PROFILE,%.0s" $(seq "$MIG_INSTANCES"))
  nvidia-smi mig -cgi "${layout%,}" -C
fi
