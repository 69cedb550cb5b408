"""Whether anything tells a tenant that another one asked the same: `just tenancy`."""
