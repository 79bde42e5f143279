import socket
from pathlib import Path

import pytest

from twin.host import ports
from twin.host.home import TwinHome


def listen(port: int = 0) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen(1)
    return server


def test_a_port_is_kept_over_restarts(tmp_path: Path) -> None:
    port = ports.keep(TwinHome(tmp_path), "moto")
    assert ports.keep(TwinHome(tmp_path), "moto") == port


def test_two_names_never_share_a_port(tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    assert len({ports.keep(home, f"server-{i}") for i in range(20)}) == 20


def test_a_port_that_a_stranger_took_is_given_up(tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    port = ports.keep(home, "moto")
    with listen(port):
        another = ports.keep(home, "moto")
        assert another != port
    assert ports.keep(home, "moto") == another


def test_a_port_on_which_our_own_server_listens_stays(tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    port = ports.keep(home, "moto")
    with listen(port):
        assert ports.keep(home, "moto", held=True) == port


def test_loopback_addresses_are_taken_one_by_one() -> None:
    with listen() as server:
        port = server.getsockname()[1]
        assert not ports.is_free("127.0.0.1", port)
        assert ports.is_free("127.244.200.9", port)


def test_that_no_port_is_free_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda *_: False)
    with pytest.raises(ports.NoPort) as refusal:
        ports.keep(TwinHome(tmp_path), "moto")
    assert str(refusal.value).startswith("no TCP port from 20000 to 31999 is free on 127.0.0.1 for moto: end what listens ")
    assert refusal.value.exit_code == 2
