// The burner wallet of Solana's maintainers, as a Wallet Standard wallet by their own bridge, with a key that has funds.
import { UnsafeBurnerWalletAdapter } from '@solana/wallet-adapter-unsafe-burner';
import { SolanaWalletAdapterWallet } from '@solana/wallet-standard-wallet-adapter-base';
import { Keypair } from '@solana/web3.js';
import { registerWallet } from '@wallet-standard/wallet';

const adapter = new UnsafeBurnerWalletAdapter();
const sign = adapter.signTransaction.bind(adapter);
adapter.signTransaction = async (transaction) => { // window.walletSigns is the test's, which may let it wait
  for (let first = true; !await window.walletSigns(first); first = false) await new Promise((done) => { setTimeout(done, 30); });
  return sign(transaction);
};
adapter.connect().then(() => {
  adapter._keypair = Keypair.fromSecretKey(Uint8Array.from(window.solanaKey));
  registerWallet(new SolanaWalletAdapterWallet(adapter, window.solanaCluster, 'http://127.0.0.1:1'));
});
