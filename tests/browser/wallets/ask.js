// Asks the wallets beside the browser. They are polled, so that one that waits for its user keeps nobody else waiting;
// window.walletStart and window.walletPoll are the test's.
export async function ask(wallet, method, params) {
  const { job } = await window.walletStart(wallet, method, params ?? []);
  for (;;) {
    const { state, result, error } = await window.walletPoll(job);
    if (state === 'done') return result;
    if (state === 'error') throw Object.assign(new Error(error.message), { code: error.code });
    await new Promise((done) => { setTimeout(done, 30); });
  }
}
