"""EVM chains: what is asked of nodes, what wallets sign, what proves a payment, and the key that pays gas."""
