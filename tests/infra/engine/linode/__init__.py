"""A fake: a Linode account and the Pulumi provider over it.

The provider is a real Pulumi plugin. It checks every input against the types of the pulumi_linode
SDK and behaves as the real one is known to: it hands out a base64 kubeconfig, shows pools that
nobody owns in a cluster's own list, and leaves alone those with a tag of `externalPoolTags`.
"""
