// A payment that ended: its time in the buyer's zone, and after a while the shop, unless the buyer would rather stay.
const LEAVE_S = 5;

let rest = LEAVE_S, going;

// `takes`: whether the buyer is taken there after a while. It may be called again, when the page is drawn anew.
export function ended(words, takes) {
  for (const time of document.querySelectorAll('time[datetime]')) {
    const at = new Date(time.dateTime);
    time.textContent = at.toLocaleString(`${document.documentElement.lang}-u-nu-latn`, { dateStyle: 'medium', timeStyle: 'short' });
  }
  clearTimeout(going);
  const back = document.getElementById('back'), box = document.getElementById('leaving');
  if (!back || !takes || rest === Infinity) return;
  const step = () => {
    if (!rest) return location.assign(back.href);
    box.querySelector('span').textContent = words.redirect.replace('{s}', rest--);
    going = setTimeout(step, 1000);
  };
  box.querySelector('button').onclick = () => {
    clearTimeout(going);
    rest = Infinity;
    box.hidden = true;
    back.focus();
  };
  box.hidden = false;
  step();
}
