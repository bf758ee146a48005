// In a frame of a shop's page: tells that page how the payment stands. The shop speaks first, and only one that its
// merchant listed is answered: what is told goes to that origin and to no other.
const checkout = document.getElementById('checkout');
const { id, origins } = checkout.dataset;
let shop;

const tell = (news) => shop && parent.postMessage({ payd: id, ...news }, shop);
function stand() {
  const { status, version, final } = document.getElementById('status').dataset;
  tell({ status, isFinal: final === 'true', version: Number(version) });
}

addEventListener('message', ({ source, origin, data }) => {
  if (parent === self || source !== parent || data?.payd !== id || !origins.split(' ').includes(origin)) return;
  shop = origin;
  stand();
});
new MutationObserver(stand).observe(checkout, { childList: true, subtree: true });
addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !event.defaultPrevented) tell({ close: true });
});
