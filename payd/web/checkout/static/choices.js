// What a buyer can pay with, and what not and why: words, amounts and the list of both.
import { el } from './wallets.js';

export const isSending = (action) => action.method === 'eth_sendTransaction';
export const short = (text) => text.length > 16 ? `${text.slice(0, 6)}…${text.slice(-4)}` : text;
export const addressOf = (option) => option.account.split(':')[2];
export const isolated = (text) => el('bdi', { textContent: text });
export const networkOf = (one) => one.amount.display.networkName ?? one.account.split(':').slice(0, 2).join(':');
export const accountOf = (one) => el('bdi', { className: 'mono', textContent: short(addressOf(one)), title: addressOf(one) });

// As the server writes amounts: `1,250.00 USDC`, `0,004125 ETH`. Exact, whatever their size. Browsers know languages
// otherwise than the server does: how its numbers look is seen from one of them.
const numbers = (sample) => /(\d+)(\D)\d{3}(\D)\d$/.exec(sample).slice(1);
export function money({ value, display: { decimals, assetSymbol } }) {
  const digits = value.padStart(decimals + 1, '0'), end = digits.length - decimals;
  const rest = digits.slice(end).replace(/0+$/, '').padEnd(Math.min(2, decimals), '0');
  const [{ length }, between, point] = numbers(document.getElementById('checkout').dataset.number);
  const whole = `${BigInt(digits.slice(0, end))}`.replace(new RegExp(`\\B(?=(\\d{${length}})*\\d{3}$)`, 'g'), between);
  return `${whole}${rest && point + rest} ${assetSymbol}`;
}

const isSame = (a, b) => a.amount.unit.toLowerCase() === b.amount.unit.toLowerCase() && a.account.toLowerCase() === b.account.toLowerCase();

// `options` are offered; `funds` are what the server says of who would pay, for these and for others.
export function choices({ options, funds, words, fill }) {
  const fundsOf = (one) => funds.find((row) => isSame(row, one));
  const lacking = funds.filter((row) => !options.some((one) => isSame(row, one)));
  const missing = (row) => (BigInt(row.has.value) < BigInt(row.amount.value) ? fill(words.lacks, { have: money(row.has) })
    : fill(words['lacks.fee'], { fee: money(row.fee), have: money(row.coins) }));
  function feeOf(one) {
    if (!one.actions.some(isSending)) return words['fee.none'];
    const known = fundsOf(one);
    return known ? fill(words['fee.about'], { fee: money(known.fee) }) : words['fee.wallet'];
  }

  // The best first; then what does not suffice, and why.
  function list(option, pick) {
    const made = el('div', { className: 'options', role: 'radiogroup', ariaLabel: words.pays });
    const line = (one, input, why) => el('label', {}, input, el('span', {}, isolated(money(one.amount)), el('small', {}, isolated(networkOf(one)), ' · ', why, ' · ', accountOf(one))));
    for (const one of options) {
      const input = el('input', { type: 'radio', name: 'option', id: one.id, checked: one === option, onchange: () => pick(one), onkeydown: (e) => { if (e.key === 'Enter') { e.preventDefault(); pick(one, true); } } });
      const label = line(one, input, `${words.fee}: ${feeOf(one)}`);
      label.onclick = (e) => { if (e.detail) pick(one, true); }; // a key moves through the list, a finger takes one
      made.append(label);
    }
    for (const one of lacking) made.append(line(one, el('input', { type: 'radio', name: 'option', disabled: true }), missing(one)));
    return made;
  }

  return { fundsOf, lacking, feeOf, list };
}
export const haveOf = (row) => [...new Set([row.has, row.coins].map(money))].join(', ');
