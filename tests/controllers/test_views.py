"""Views: what the controllers read of an object."""

from __future__ import annotations

from muster.webhook.controllers import views
from tests.controllers.documents import pod


def test_a_pod_is_as_old_as_the_api_server_says_and_of_no_age_where_it_says_nothing():
    document = pod("a-0", "muster-sampler-0", uid="uid-a", creationTimestamp="2026-11-21T12:00:00Z")
    assert views.Pod.from_document(document).created == "2026-11-21T12:00:00Z"
    del document["metadata"]["creationTimestamp"]
    assert views.Pod.from_document(document).created == ""
