"""The rules of the policy pack: one module per area, `registry` for all of them, `sdk` for Pulumi's side."""
