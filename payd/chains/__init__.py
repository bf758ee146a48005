"""Floor 2: blockchains, real and simulated, behind one interface (`base.Chain`)."""
