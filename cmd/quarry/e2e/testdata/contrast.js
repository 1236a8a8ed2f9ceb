(() => {
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const over = (a, b) => a.slice(0, 3).map((x, i) => x * a[3] + b[i] * (1 - a[3])).concat(1);
  const lum = (c) => { const [r, g, b] = c.slice(0, 3).map((x) => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const ground = (el) => { const stack = []; for (let e = el; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0) stack.push(c); if (c[3] === 1) break; } let out = [255, 255, 255, 1]; for (const c of stack.reverse()) out = over(c, out); return out; };
  const bad = [];
  for (const el of document.querySelectorAll('body *')) {
    if (![...el.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    if (!el.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || el.closest('.vh, .skip')) continue;
    const st = getComputedStyle(el), size = parseFloat(st.fontSize), big = size >= 24 || (size >= 18.66 && st.fontWeight >= 700);
    if (el.closest(':disabled')) continue;
    const bg = ground(el), fg = over(parse(st.fill !== 'rgb(0, 0, 0)' && el instanceof SVGElement ? st.fill : st.color), bg);
    const r = ratio(fg, bg);
    if (r < (big ? 3 : 4.5)) bad.push(`${el.tagName}.${el.getAttribute('class')} "${el.textContent.trim().slice(0, 24)}" ${r.toFixed(2)}`);
  }
  return [...new Set(bad)].slice(0, 20);
})()
