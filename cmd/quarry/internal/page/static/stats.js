// View: what the index holds and how fast it answers.

import { h, fill, num, bytes, ms, count } from './dom.js';
import { figure, hbars, histogram, inUse } from './plots.js';

export function mount(root, app) {
  const frame = h('div', { class: 'view stats' });
  let timer = 0;
  fill(root, frame);

  async function draw() {
    const info = await app.info();
    if (!info) return fill(frame, h('p', { class: 'empty' }, 'Nothing to count yet.'));
    const [st, server] = await Promise.all([app.api.stats(app.state.target, info), app.api.latencies(app.state.target).catch(() => null)]);
    const open = new Set([...frame.querySelectorAll('figure details[open]')].map((d) => d.closest('figure').dataset.name));
    fill(frame,
      h('header', { class: 'line' }, h('h2', { dir: 'auto' }, info.name), h('button', { type: 'button', class: 'small', onclick: () => draw() }, 'Refresh')),
      st.problem ? h('p', { class: 'error', role: 'alert' }, st.problem) : null,
      h('ul', { class: 'tiles' }, st.tiles.map(([label, v, note]) => h('li', null, h('span', { class: 'tl' }, label), h('strong', { class: String(v).length > 12 ? 'long' : null }, v), note ? h('span', { class: 'muted' }, note) : null))),
      h('div', { class: 'plots' }, named('segments', segments(st.segments)), named('fields', fields(st.fields)), named('documents', documents(st.documents)), latency(server)));
    for (const d of frame.querySelectorAll('figure')) if (open.has(d.dataset.name)) d.querySelector('details').open = true;
  }

  function named(name, figure) {
    if (figure) figure.dataset.name = name;
    return figure;
  }

  function segments(list) {
    if (!list?.length) return null;
    return figure('Segments', [
      hbars(list.map((x) => ({ label: x.name, text: num(x.docs - x.deleted) + (x.deleted ? ` −${num(x.deleted)}` : ''), parts: [{ n: x.docs - x.deleted, kind: 'final' }, { n: x.deleted, kind: 'lost' }] })), 'Documents by segment'),
      h('p', { class: 'key' }, h('i', { class: 'dot k-final' }), 'live', h('i', { class: 'dot k-lost' }), 'deleted, until a merge'),
    ], ['Segment', 'Documents', 'Deleted', 'Size'], list.map((x) => [x.name, num(x.docs), num(x.deleted), bytes(x.bytes)]),
    `${count(list.length, 'segment')}, ${bytes(list.reduce((a, x) => a + x.bytes, 0))}`);
  }

  function fields(list) {
    if (!list?.length) return null;
    return figure('Fields', [
      hbars(list.map((x) => ({ label: x.name, text: num(x.documents), parts: [{ n: x.documents, kind: x.kind === 'text' ? 'keyword' : x.kind === 'vector' ? 'vector' : 'meta' }] })), 'Documents by field'),
      h('p', { class: 'key' }, h('i', { class: 'dot k-keyword' }), 'text', h('i', { class: 'dot k-vector' }), 'vector', h('i', { class: 'dot k-meta' }), 'metadata'),
    ], ['Field', 'Kind', 'Type', 'Documents'], list.map((x) => [x.name, x.kind, x.type, num(x.documents)]), 'Documents that hold each field');
  }

  function documents(list) {
    if (!list?.length) return null;
    const top = [...list].sort((a, b) => b.chunks - a.chunks).slice(0, 40);
    return figure('Documents', hbars(top.map((x) => ({ label: x.title || x.id, text: count(x.chunks, 'chunk'), parts: [{ n: x.chunks, kind: 'final' }] })), 'Chunks by document'),
      ['Document', 'Format', 'Pages', 'Chunks', 'Size'], list.map((x) => [x.id, x.format, x.pages || '', num(x.chunks), bytes(x.bytes)]),
      list.length > top.length ? `The ${top.length} largest of ${num(list.length)}` : count(list.length, 'document'));
  }

  function latency(server) {
    let mine = [];
    try {
      mine = JSON.parse(sessionStorage.getItem('latencies') || '[]');
    } catch {
      mine = [];
    }
    const out = [];
    if (server?.buckets.length) {
      out.push(named('server', figure('Time of a search, all clients and targets', histogram(server.buckets, 'Searches by time on the server'), ['Up to', 'Searches'], server.buckets.map((b) => [b.label, num(b.n)]),
        `${count(server.count, 'search', 'searches')} since the server started, ${ms(server.mean)} on average`)));
    }
    const sorted = [...mine].sort((a, b) => a - b), at = (p) => ms(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))]);
    if (mine.length) {
      const buckets = bucketize(mine);
      out.push(named('mine', figure('Time of a search, this tab', histogram(buckets, 'Searches of this tab by time in the engine'), ['Up to', 'Searches'], buckets.map((b) => [b.label, num(b.n)]),
        `${count(mine.length, 'search', 'searches')}: half within ${at(0.5)}, 99 % within ${at(0.99)}`)));
    }
    if (!out.length) out.push(h('p', { class: 'empty' }, 'No searches yet: the times of the first ones will show here.'));
    return out;
  }

  return {
    async update() {
      await draw();
      clearInterval(timer);
      timer = setInterval(() => { if (document.visibilityState === 'visible' && !document.activeElement?.closest?.('.stats')) draw().catch(() => clearInterval(timer)); }, 5000);
    },
    leave: () => clearInterval(timer),
  };
}

// bucketize counts times in buckets of 1-2-5, from the first to the last in use.
function bucketize(times) {
  const bounds = [];
  for (let p = 0.001; p <= 1e5; p *= 10) bounds.push(p, 2 * p, 5 * p);
  const counts = bounds.map(() => 0);
  for (const t of times) counts[Math.max(0, bounds.findIndex((b) => t <= b))]++;
  const [from, to] = inUse(counts);
  return bounds.slice(from, to + 1).map((b, i) => ({ label: ms(b), n: counts[from + i] }));
}
