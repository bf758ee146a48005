"""Solana: real funds on chains of the `solana` namespace."""
