// What can be measured of a page as it is shown now. Each gives what is wrong, in words; nothing where all is well.
(() => {
  const named = (one) => one.id ? `#${one.id}` : one.tagName.toLowerCase() + (one.className?.baseVal ?? one.className ? `.${String(one.className.baseVal ?? one.className).trim().replace(/\s+/g, '.')}` : '');
  const isShown = (one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const isUnseen = (one) => one.closest('.unseen') !== null;
  const keyframesOf = (group) => [...group.cssRules].flatMap((rule) => (rule instanceof CSSKeyframesRule ? rule : rule.cssRules ? keyframesOf(rule) : []));
  // Lines of text, as they are painted, with the element that holds them.
  function lines() {
    const found = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      const holder = node.parentElement;
      if (!node.data.trim() || holder.closest('script, noscript, style, option') || !isShown(holder) || isUnseen(holder)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const box of range.getClientRects()) if (box.width > 1 && box.height > 1) found.push({ node, holder, box });
    }
    return found;
  }
  function clipper(one) {
    for (let up = one; up && up !== document.body; up = up.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(up);
      // What is beyond the edge of a list that scrolls is had by scrolling.
      if (overflowX !== 'visible' && !/auto|scroll/.test(overflowY)) return up;
    }
    return null;
  }
  const outside = (inner, outer, slack) => inner.left < outer.left - slack || inner.right > outer.right + slack
    || inner.top < outer.top - slack || inner.bottom > outer.bottom + slack;

  window.measure = {
    // Wider than the window, cut off, or on top of each other. `free` may be cut: its whole text is had otherwise.
    layout(free) {
      const wrong = new Set(), wide = document.documentElement.scrollWidth - innerWidth;
      if (wide > 0) wrong.add(`${wide} px too wide`);
      const all = lines();
      for (const { holder, box } of all) {
        if (holder.closest(free)) continue;
        if (box.left < -1 || box.right > innerWidth + 1) wrong.add(`${named(holder)} is outside the window`);
        const cuts = clipper(holder);
        if (cuts && outside(box, cuts.getBoundingClientRect(), 2)) wrong.add(`${named(holder)} is cut off`);
      }
      for (const one of document.querySelectorAll('button, .button, select, input')) {
        if (!isShown(one)) continue;
        if (one.scrollWidth > one.clientWidth + 1 && !one.matches('input')) wrong.add(`${named(one)} cuts its text off`);
      }
      for (const [place, a] of all.entries()) {
        if (a.holder.closest(free)) continue;
        for (const b of all.slice(place + 1)) {
          if (a.node === b.node || b.holder.closest(free)) continue;
          const across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
          const down = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
          // Boxes of lines are taller than their letters.
          if (across > 2 && down > 0.45 * Math.min(a.box.height, b.box.height)) wrong.add(`${named(a.holder)} is on ${named(b.holder)}`);
        }
      }
      return [...wrong];
    },
    // Where colours are the buyer's own, a border is all that shows what can be pressed.
    borders() {
      return [...document.querySelectorAll('button, .button, input:not([type=checkbox], [type=radio]), select, [role=alert], .qr')].filter(isShown)
        .filter((one) => !['Block', 'Inline'].some((way) => {
          const style = getComputedStyle(one);
          return parseFloat(style[`border${way}StartWidth`]) > 0 && style[`border${way}StartStyle`] !== 'none';
        }) && !(one.matches('.plain'))).map(named);
    },
    motion: () => document.getAnimations().map((one) => `${one.animationName ?? one.transitionProperty} on ${named(one.effect.target)}`),
    // What is animated where motion is welcome, with what it changes and how often a second: CSS says so before it runs.
    animations() {
      const frames = new Map([...document.styleSheets, ...document.adoptedStyleSheets].flatMap(keyframesOf).map((rule) => [rule.name, rule]));
      return [...document.querySelectorAll('*')].flatMap((one) => ['', '::before', '::after'].flatMap((part) => {
        const style = getComputedStyle(one, part || null), listed = (name) => style[name].split(', ');
        if (style.animationName === 'none') return [];
        const [times, spans] = [listed('animationIterationCount'), listed('animationDuration')];
        return listed('animationName').map((name, place) => ({
          name, on: named(one) + part, changes: [...new Set([...frames.get(name).cssRules].flatMap((rule) => [...rule.style]))],
          perSecond: Math.min(parseFloat(times[place % times.length].replace('infinite', 'Infinity')), 1 / parseFloat(spans[place % spans.length])),
          repeats: times[place % times.length] !== '1',
        }));
      }));
    },
    // A flash is light that comes and goes: nothing but a place may change again and again, and that at most three times a second.
    flashes() {
      return this.animations().filter((one) => one.repeats && (one.perSecond > 3 || !one.changes.every((what) => ['transform', 'rotate', 'translate'].includes(what))))
        .map((one) => `${one.name} on ${one.on}`);
    },
    // What a screen reader cannot name.
    busy: () => [...document.querySelectorAll('.spinner')].filter(isShown)
      .filter((one) => one.ariaHidden !== 'true' || !one.parentElement.querySelector('h2')).map(named),
  };
})();
