"""`modelctl watch` where no pod answers. On real servers: tests/system/serving/test_watch.py."""

from pathlib import Path

import pytest

from modelctl.rollout.fleet import Pod
from modelctl.rollout.limits import Limits
from modelctl.rollout.plan import StackRelease
from modelctl.rollout.watch import NotServed, Watch
from modelctl.store.bucket import Store
from tests.modelctl.rollout.idle_fleet import IdleFleet
from tests.modelctl.rollout.releases import model, publish

DEAD = Pod("a", "uid", http="http://127.0.0.1:9", metrics="http://127.0.0.1:9", admin_key="k")


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        ([], "there are no pods to watch; run this after `pulumi up`"),
        ([DEAD], "no pod answered in 0 s; `kubectl get pods` says what they do"),
    ],
)
def test_pods_that_do_not_answer_are_no_release_to_judge(store: Store, tmp_path: Path, pods: list[Pod], said: str) -> None:
    release = StackRelease(publish(store, tmp_path / "repository", model()), "local", store)
    watch = Watch(release, IdleFleet(pods), {}, Limits(watch=0), lambda _: None)
    with pytest.raises(NotServed) as refusal:
        watch.run()
    assert (str(refusal.value), refusal.value.exit_code) == (said, 2)
