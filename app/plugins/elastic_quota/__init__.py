"""The ElasticQuota plugin: trees of quotas that lend one another what they do not use."""
