import socket
from pathlib import Path

import pytest

from twin.cluster.pod_addresses import Addresses, NoAddress, loopback
from twin.host.home import TwinHome

PORTS = [28000, 28001]


def test_a_pods_address_in_the_api_and_on_this_machine() -> None:
    assert loopback("10.244.200.7") == "127.244.200.7"


def test_each_pod_has_its_own_address_outside_kwoks_range(tmp_path: Path) -> None:
    addresses = Addresses(TwinHome(tmp_path))
    first, second = addresses.allot("a", PORTS), addresses.allot("b", PORTS)
    assert first != second
    assert addresses.allot("a", PORTS) == first
    assert int(first.split(".")[2]) >= 128


def test_an_address_survives_the_agent(tmp_path: Path) -> None:
    first = Addresses(TwinHome(tmp_path))
    given = first.allot("a", PORTS)
    first._guard.close()
    again = Addresses(TwinHome(tmp_path))
    assert again.allot("a", PORTS) == given
    assert again.allot("b", PORTS) != given


def test_a_returned_address_is_given_again(tmp_path: Path) -> None:
    addresses = Addresses(TwinHome(tmp_path))
    given = addresses.allot("a", PORTS)
    addresses.release("a")
    assert addresses.allot("b", PORTS) == given


def test_two_twins_never_share_a_range(tmp_path: Path) -> None:
    one, two = Addresses(TwinHome(tmp_path / "1")), Addresses(TwinHome(tmp_path / "2"))
    assert one.allot("a", PORTS).rpartition(".")[0] != two.allot("a", PORTS).rpartition(".")[0]


def test_a_range_that_another_twin_took_in_the_meantime_is_left_to_it(tmp_path: Path) -> None:
    one = Addresses(TwinHome(tmp_path / "1"))
    two = TwinHome(tmp_path / "2")
    two.pods.mkdir(parents=True)
    (two.pods / "range.json").write_bytes((tmp_path / "1" / "pods" / "range.json").read_bytes())
    assert Addresses(two)._octet != one._octet


def test_an_address_on_which_somebody_listens_is_skipped(tmp_path: Path) -> None:
    addresses = Addresses(TwinHome(tmp_path))
    first = addresses.allot("a", PORTS)
    addresses.release("a")
    with socket.socket() as stranger:
        stranger.bind((loopback(first), PORTS[1]))
        stranger.listen(1)
        assert addresses.allot("b", PORTS) != first


def test_a_port_that_is_taken_everywhere_is_named(tmp_path: Path) -> None:
    with socket.socket() as stranger:
        stranger.bind(("0.0.0.0", 0))  # noqa: S104 - what is tested
        stranger.listen(1)
        port = stranger.getsockname()[1]
        with pytest.raises(NoAddress, match=rf"has the ports {port} free; .* \(0\.0\.0\.0\)\?"):
            Addresses(TwinHome(tmp_path)).allot("a", [port])
