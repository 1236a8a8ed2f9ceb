// View: import. Files go to a knowledge base, lines of JSON to a collection.

import { h, fill, num, bytes, count, say } from './dom.js';

export function mount(root, app) {
  const jobs = h('ul', { class: 'jobs', 'aria-label': 'Imports' });
  const pick = h('input', { type: 'file', multiple: true, class: 'vh', id: 'pick', onchange: () => { take([...pick.files].map((file) => ({ file, name: file.name }))); pick.value = ''; } });
  const choose = h('select', { id: 'into', onchange: () => drawNew() });
  const fresh = h('div', { class: 'fresh' });
  const hint = h('p', { class: 'muted' });
  const drop = h('div', { class: 'drop' },
    h('p', null, h('strong', null, 'Drop files here'), ' or ', h('label', { class: 'linklike', for: 'pick' }, 'choose them'), '.'), hint, pick);
  let over = 0, models = [];
  drop.addEventListener('dragenter', (e) => { e.preventDefault(); over++; drop.classList.add('over'); });
  drop.addEventListener('dragover', (e) => { e.preventDefault(); e.dataTransfer.dropEffect = 'copy'; });
  drop.addEventListener('dragleave', () => { over--; if (over <= 0) drop.classList.remove('over'); });
  drop.addEventListener('drop', async (e) => {
    e.preventDefault();
    over = 0;
    drop.classList.remove('over');
    take(await dropped(e.dataTransfer));
  });
  fill(root, h('div', { class: 'view import' }, h('h2', null, 'Import'),
    h('label', { class: 'into' }, h('span', null, 'Into'), choose), fresh, drop, jobs));

  function drawNew() {
    const into = choose.value;
    const collection = into.startsWith('c:') || into === 'new:c';
    hint.textContent = collection
      ? 'JSON, one document a line (.jsonl, .ndjson): "id", the text fields of the collection, anything else is metadata.'
      : 'Markdown, HTML, text, PDF, DOCX, XLSX, CSV, JSONL; folders too. A file of the same name is a new version.';
    if (!into.startsWith('new:')) return fill(fresh);
    fill(fresh,
      h('label', null, h('span', null, 'Name'), h('input', { id: 'newname', type: 'text', required: true, maxlength: 64, pattern: '[A-Za-z0-9][A-Za-z0-9_\\-]{0,63}', placeholder: 'letters, digits, - and _', autocomplete: 'off', spellcheck: 'false' })),
      collection ? h('label', null, h('span', null, 'Text fields'), h('input', { id: 'newtexts', type: 'text', value: 'title, text', autocomplete: 'off', spellcheck: 'false' })) : null,
      h('label', null, h('span', null, 'By meaning'), h('select', { id: 'newmodel' }, h('option', { value: '' }, 'no, by words only'), models.map((m) => h('option', { value: m, selected: m === 'e5' }, `yes, with ${m}`)))));
  }

  // target makes the new one, if one is wanted, and returns its key.
  async function target() {
    const into = choose.value;
    if (!into.startsWith('new:')) return into;
    const name = fresh.querySelector('#newname'), model = fresh.querySelector('#newmodel').value;
    if (!name.reportValidity()) return '';
    const kind = into.slice(4);
    if (kind === 'c') await app.api.createCollection(name.value, fresh.querySelector('#newtexts').value.split(',').map((x) => x.trim()).filter(Boolean), model);
    else await app.api.createBase(name.value, model);
    await app.reload();
    const key = kind + ':' + name.value;
    app.state.target = key;
    app.save(false);
    await draw();
    document.getElementById('target').value = key;
    return key;
  }

  async function take(files) {
    if (!files.length) return;
    let key;
    try {
      key = await target();
    } catch (e) {
      jobs.prepend(h('li', { class: 'job failed' }, h('p', { class: 'error', role: 'alert' }, e.message)));
      return;
    }
    if (!key) return;
    for (const f of files) await run(key, f);
    app.forget();
    say(`${count(files.length, 'file')} done`);
  }

  async function run(key, { file, name }) {
    const bar = h('progress', { max: 1, value: 0, 'aria-label': name });
    const text = h('span', { class: 'muted' }, 'waiting');
    const problems = h('ul', { class: 'problems' });
    const stop = new AbortController();
    const cancel = h('button', { type: 'button', class: 'small', onclick: () => stop.abort() }, 'Stop');
    const job = h('li', { class: 'job' }, h('div', { class: 'line' }, h('bdi', { class: 'jn' }, name), text, cancel), bar, problems);
    jobs.prepend(job);
    const step = (share, what) => {
      if (share === null) bar.removeAttribute('value');
      else bar.value = share;
      text.textContent = what;
    };
    try {
      const r = key.startsWith('c:') ? await lines(key, file, step, stop.signal) : await app.api.upload(key, name, file, step, stop.signal);
      fill(problems, r.problems.slice(0, 50).map((p) => h('li', { dir: 'auto' }, p)), r.problems.length > 50 ? h('li', null, `and ${num(r.problems.length - 50)} more`) : null);
      job.classList.add(r.failed ? 'failed' : r.problems.length ? 'warned' : 'done');
      step(1, r.text);
    } catch (e) {
      job.classList.add('failed');
      step(bar.value, stop.signal.aborted ? 'stopped; what was sent is kept' : 'failed');
      if (!stop.signal.aborted) fill(problems, h('li', { class: 'error', role: 'alert' }, e.message));
    }
    cancel.remove();
  }

  // lines sends a file of JSON lines in batches, so that the browser holds one of
  // them at a time and the bar tells what is on disk.
  async function lines(key, file, step, signal) {
    const LIMIT = 1 << 20;
    const info = await app.api.describe(key);
    let sent = 0, applied = 0, first = 1, batch = [], size = 0, seen = 0;
    const problems = [];
    const flush = async () => {
      if (!batch.length) return;
      const r = await app.api.bulk(key, info, batch, signal);
      applied += r.applied;
      for (const e of r.errors) problems.push(`line ${num(first + e.line - 1)}: ${e.message}`);
      first += batch.length;
      sent += size;
      batch = [];
      size = 0;
      step(Math.min(1, sent / (file.size || 1)), `${count(applied, 'document')}, ${bytes(Math.min(sent, file.size))} of ${bytes(file.size)}`);
    };
    const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      const text = rest + (value || '');
      const parts = text.split('\n');
      rest = done && parts.at(-1) !== '' ? '' : parts.pop(); // what has no line end yet
      for (const line of parts) {
        batch.push(line);
        size += line.length + 1;
        seen++;
        if (size >= LIMIT || batch.length >= 1000) await flush();
      }
      if (rest.length > 64 << 20) throw new Error(`line ${num(seen + 1)} is longer than 64 MiB`);
      if (done) break;
    }
    await flush();
    return { problems, failed: applied === 0 && seen > 0, text: `${count(applied, 'document')} of ${count(seen, 'line')}` };
  }

  async function draw() {
    models = await app.api.models().catch(() => []);
    const group = (kind, label, anew) => h('optgroup', { label }, app.targets.filter((t) => t.kind === kind).map((t) => h('option', { value: t.key, selected: t.key === app.state.target }, t.name)), h('option', { value: anew }, `a new ${label.toLowerCase()} …`));
    fill(choose, group('base', 'Knowledge base', 'new:b'), group('collection', 'Collection', 'new:c'));
    drawNew();
  }

  return { update: draw };
}

// dropped lists the files of a drop, those in folders by their path.
async function dropped(transfer) {
  const entries = [...transfer.items].map((i) => i.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, name: file.name }));
  const out = [];
  const walk = async (entry, path) => {
    const name = path + entry.name;
    if (entry.isFile) {
      out.push({ file: await new Promise((ok, no) => entry.file(ok, no)), name });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const part = await new Promise((ok, no) => reader.readEntries(ok, no));
      if (!part.length) return;
      for (const e of part) await walk(e, name + '/');
    }
  };
  for (const e of entries) await walk(e, '');
  return out;
}
