"""Two hosts on one machine: network namespaces that nothing joins but a pair of virtual cards with a cable between."""

import shlex
import shutil
import subprocess
import time

import pytest


class TwoHosts:
    """Hosts 0 and 1, with a cable that can be cut. Where the system does not allow it the test is skipped, with why.

    They share files, processes and processors; each has a network of its own. All of it is gone when the block ends,
    or when the process that made it does, however it ends.
    """

    card = "sg-veth"
    """Its name on both hosts."""
    addresses = ("10.77.0.1", "10.77.0.2")

    def __enter__(self):
        for tool in ("unshare", "nsenter", "ip"):
            if shutil.which(tool) is None:
                pytest.skip(f"two hosts need the command {tool}")
        self._holders = [
            subprocess.Popen(
                ["unshare", "--net", "sh", "-c", "echo; exec cat"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for _ in self.addresses
        ]  # fmt: skip
        try:
            if not all(holder.stdout.readline() for holder in self._holders):
                pytest.skip(f"no network namespaces here: {self._holders[0].communicate()[1].strip()}")
            self._wire()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for holder in self._holders:
            holder.communicate()  # closes its input, which ends it, and with it the namespace

    def command(self, host, *command):
        """A command as it is given to run on a host."""
        return ["nsenter", "--target", str(self._holders[host].pid), "--net", *command]

    def write_ssh(self, path):
        """Write a program that takes the place of ssh for these hosts."""
        cases = [
            f'{address}) exec {shlex.join(self.command(host))} sh -c "$*" ;;'
            for host, address in enumerate(self.addresses)
        ]
        skip_options = 'while [ "${1#-}" != "$1" ]; do shift; done'
        path.write_text("\n".join(["#!/bin/sh", skip_options, "host=$1", "shift", "case $host in", *cases, "esac", ""]))
        path.chmod(0o700)

    def cut(self):
        """Nothing goes through the cable any more, and nobody is told. Host 0 keeps its own address."""
        self._ip(1, "link", "set", self.card, "down")

    def heal(self):
        """As it was."""
        self._ip(1, "link", "set", self.card, "up")

    def _wire(self):
        peer = ["peer", "name", self.card, "netns", str(self._holders[1].pid)]
        made = self._ip(0, "link", "add", self.card, "type", "veth", *peer, check=False)
        if made.returncode:
            pytest.skip(f"no virtual network cards here: {made.stderr.strip()}")
        for host, address in enumerate(self.addresses):
            self._ip(host, "link", "set", "lo", "up")
            self._ip(host, "link", "set", self.card, "addrgenmode", "none")  # IPv6 would take a second to settle
            self._ip(host, "address", "add", f"{address}/24", "dev", self.card)
            self._ip(host, "link", "set", self.card, "up")
        for host in range(len(self.addresses)):
            self._await_carrier(host)

    def _await_carrier(self, host):
        """The kernel notices up to a second later that the other end is up too; MPI does not use a card before that."""
        deadline = time.monotonic() + 30.0
        while "state UP" not in self._ip(host, "-o", "link", "show", "type", "veth").stdout:
            if time.monotonic() > deadline:
                pytest.fail(f"host {host} sees nobody at the other end of its cable")
            time.sleep(0.02)

    def _ip(self, host, *arguments, check=True):
        command = self.command(host, "ip", *arguments)
        return subprocess.run(command, capture_output=True, text=True, check=check, timeout=30)
