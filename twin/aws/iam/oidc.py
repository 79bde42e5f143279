"""OIDC identity providers."""

from __future__ import annotations

from twin.aws.base import tags
from twin.aws.base.clients import Clients
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine, or_none


class OpenIdConnectProvider(Handler):
    token = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"
    inputs = frozenset({"clientIdLists", "thumbprintLists", "url", "tags"})
    computed = frozenset({"arn", "thumbprintLists"})
    replace_on = frozenset({"url"})
    unordered = frozenset({"clientIdLists"})
    delete_before_replace = True

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        arn = clients("iam").create_open_id_connect_provider(
            Url=inputs["url"],
            ClientIDList=inputs["clientIdLists"],
            ThumbprintList=inputs.get("thumbprintLists", []),
            Tags=tags.to_list(inputs.get("tags")),
        )["OpenIDConnectProviderArn"]
        return arn, self.outputs(inputs, {"arn": arn, "thumbprintLists": inputs.get("thumbprintLists", [])})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("iam").get_open_id_connect_provider, OpenIDConnectProviderArn=id)
        if answer is None:
            return None
        seen = tags.from_list(answer.get("Tags"))
        return {
            **state,
            "clientIdLists": answer["ClientIDList"],
            **tags.observed(state, seen),
        }

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        iam = clients("iam")
        for client_id in sorted(set(new["clientIdLists"]) - set(old["clientIdLists"])):
            iam.add_client_id_to_open_id_connect_provider(OpenIDConnectProviderArn=id, ClientID=client_id)
        for client_id in sorted(set(old["clientIdLists"]) - set(new["clientIdLists"])):
            iam.remove_client_id_from_open_id_connect_provider(OpenIDConnectProviderArn=id, ClientID=client_id)
        if "thumbprintLists" in new and new["thumbprintLists"] != old.get("thumbprintLists"):
            iam.update_open_id_connect_provider_thumbprint(
                OpenIDConnectProviderArn=id, ThumbprintList=new["thumbprintLists"]
            )
        untag, tag = iam.untag_open_id_connect_provider, iam.tag_open_id_connect_provider
        tags.retag(old, new, untag, tag, OpenIDConnectProviderArn=id)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("iam").delete_open_id_connect_provider(OpenIDConnectProviderArn=id)
