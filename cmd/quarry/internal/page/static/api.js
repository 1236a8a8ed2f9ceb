// The HTTP API: the only file that knows its shapes. What it returns is the same
// for collections, knowledge bases and spaces (space.js).
//
//   info    {kind, name, documents, chunks, texts, vectors, embeds, meta: [{name, type}], modes, mode, accounts}
//   result  {hits, total, ms, roundtrip, timing: [{name, ms}], facets, facetScope, notes, flags, more}
//   hit     {n, id, document, chunk, title, path, page, pageEnd, score, kind, legs, keyword, vector,
//            retrieval, retrievalKind, snippets: [{field, text, marks, start, cut}], meta, raw}

import { bytes, num, count as counted } from './dom.js';
import * as space from './space.js';
import { inUse } from './plots.js';
import { filterText } from './state.js';
import { modeOf } from './settings.js';

const BASE = new URL('v1/', new URL('.', location.href));
const KEY = 'quarry-key';

export class APIError extends Error {
  constructor(problem, status) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
    Object.assign(this, { status, code: problem.code || '', field: problem.field || '', durable: problem.durable });
    if (this.code === 'invalid_filter' || /^filter\b/.test(this.message)) this.field = 'filter';
  }
}

export function setKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

export const hasKey = () => !!sessionStorage.getItem(KEY);

// parseJSON keeps integers beyond 2^53 as BigInt, where the browser tells the
// digits; they are shown and filtered by, never reckoned with.
const parseJSON = (text) => JSON.parse(text, (k, v, source) => (typeof v === 'number' && !Number.isSafeInteger(v) && /^-?\d+$/.test(source?.source || '') ? BigInt(source.source) : v));

function headers(extra) {
  const key = sessionStorage.getItem(KEY);
  return { Accept: 'application/json', ...(key ? { Authorization: 'Bearer ' + key } : {}), ...extra };
}

async function failure(response) {
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    problem.title = `The server answered ${response.status} ${response.statusText}.`;
  }
  return new APIError(problem, response.status);
}

async function send(method, path, { body, type, signal, root } = {}) {
  let response;
  try {
    response = await fetch(new URL(path, root || BASE), {
      method, signal, credentials: 'omit', cache: 'no-store', headers: headers(body === undefined ? {} : { 'Content-Type': type || 'application/json' }),
      body: body === undefined ? undefined : type ? body : JSON.stringify(body),
    });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new APIError({ detail: 'The server does not answer.' }, 0);
  }
  if (!response.ok) throw await failure(response);
  return response;
}

export const json = async (method, path, options) => parseJSON(await (await send(method, path, options)).text());

const split = (key) => [key.slice(0, 1), encodeURIComponent(key.slice(2))];
const PLACES = { c: 'collections/', b: 'knowledge-bases/', s: 'spaces/' };
export const place = (key) => PLACES[split(key)[0]] + split(key)[1];

// targets lists collections, knowledge bases and spaces; problems of the list
// tells which of them cannot be had.
export async function targets() {
  const [c, b, p] = await Promise.allSettled([json('GET', 'collections'), json('GET', 'knowledge-bases'), json('GET', 'spaces')]);
  if (c.status === 'rejected' && (b.status === 'rejected' || c.reason.status < 500)) throw c.reason;
  const out = [
    ...(c.value?.collections || []).map((x) => ({ key: 'c:' + x.name, kind: 'collection', name: x.name })),
    ...(b.value?.bases || []).map((x) => ({ key: 'b:' + x.id, kind: 'base', name: x.name || x.id })),
    ...(p.value?.spaces || []).filter((x) => x.active && x.published).map((x) => ({ key: 's:' + x.id, kind: 'space', name: x.name || x.id })),
  ];
  out.problems = [c, b, p].filter((x) => x.status === 'rejected').map((x) => x.reason.message);
  return out;
}

const BASE_META = [['format', 'keyword'], ['language', 'keyword'], ['tags', 'keyword'], ['document_id', 'keyword'], ['source', 'keyword'], ['title', 'keyword'], ['section', 'keyword'],
  ['page', 'int64'], ['chunk_index', 'int64'], ['authors', 'keyword'], ['created', 'time'], ['modified', 'time']].map(([name, type]) => ({ name, type }));

// describe tells what a target can do.
export async function describe(key) {
  if (key[0] === 's') return space.describe(key);
  const r = await json('GET', place(key));
  if (key[0] === 'b') return describeBase(r.base);
  const stats = await json('GET', place(key) + '/stats');
  const schema = r.schema || {};
  const meta = Object.entries(schema.meta || {}).map(([name, type]) => ({ name, type })).sort((a, b) => (a.name < b.name ? -1 : 1));
  return {
    kind: 'collection', name: r.name, documents: stats.documents, texts: (schema.text || []).map((t) => t.name), stored: (schema.text || []).filter((t) => !t.not_stored).map((t) => t.name),
    vectors: schema.vectors || [], embeds: !!r.embedding, embedding: r.embedding, meta,
  };
}

function describeBase(b) {
  const embeds = !!b.embedder;
  return { kind: 'base', name: b.name || b.id, documents: b.documents, chunks: b.chunks, texts: [], vectors: embeds ? [{}] : [], embeds, model: b.model, embedder: b.embedder, analyzer: b.analyzer, meta: BASE_META };
}

const TITLES = ['title', 'name', 'symbol', 'heading', 'subject'];
const FACETS = 8, VALUES = 8;

// stages lists what took a share worth showing; the rest is told together.
export function stages(took) {
  const out = [], total = took?.total_ms || 0, small = [];
  let rest = total;
  for (const [key, v] of Object.entries(took || {})) {
    const name = key.replace(/_ms$/, '');
    if (name === key || name === 'total') continue;
    if (v < total / 25 && name !== 'search' && name !== 'embed') {
      small.push(name);
      continue;
    }
    out.push({ name, ms: v });
    rest -= v;
  }
  if (rest > 0.0005) out.push({ name: 'other', ms: rest, title: small.join(', ') });
  return out;
}

// query makes the body of a search of a collection.
function query(info, q, s) {
  const mode = modeOf(s, info), filter = filterText(s), text = q.trim();
  const body = { k: s.k, count: true, fields: ['*'] };
  if (filter) body.filter = filter;
  if (s.min > 0) body.min_score = s.min;
  if (!text) return { ...body, filter: filter || 'and()' };
  Object.assign(body, { query: text, mode });
  if (mode !== 'vector') {
    body.highlight = info.stored;
    const t = {};
    if (s.words === 'all') t.operator = 'and';
    if (s.words === 'phrase') t.phrase = true;
    if (s.prefix) t.prefix = true;
    if (mode === 'hybrid' && s.wk !== 1) t.weight = s.wk;
    if (Object.keys(t).length) body.text = t;
    if (s.words === 'syntax' && mode === 'keyword') {
      delete body.query;
      body.query_string = text;
    }
  }
  if (mode !== 'keyword') {
    const v = {};
    if (s.exact) v.exact = true;
    if (mode === 'hybrid' && s.wv !== 1) v.weight = s.wv;
    if (Object.keys(v).length) body.vector = v;
  }
  if (mode === 'hybrid') {
    if (s.fusion !== 'rrf') body.fusion = { method: s.fusion };
    if (s.depth > 0) body.depth = s.depth;
  }
  return body;
}

// search answers a query of a settings object.
export async function search(key, info, q, s, { signal, facets = true } = {}) {
  if (key[0] === 's') return space.search(key, info, q, s, signal);
  return key[0] === 'b' ? searchBase(key, info, q, s, signal) : searchCollection(key, info, q, s, signal, facets);
}

async function searchCollection(key, info, q, s, signal, facets) {
  const body = query(info, q, s);
  if (facets) {
    const rank = { keyword: 0, bool: 1, int64: 2 };
    const fields = info.meta.filter((f) => f.type in rank).sort((a, b) => rank[a.type] - rank[b.type]).slice(0, FACETS);
    if (fields.length) body.facets = fields.map((f) => ({ field: f.name, limit: VALUES }));
  }
  const page = async (extra, from) => {
    const start = performance.now();
    const r = await json('POST', place(key) + '/search', { body: { ...body, ...extra }, signal });
    const hits = r.hits.map((h, i) => collectionHit(h, from + i + 1, info, body));
    const out = {
      hits, total: r.total ?? -1, ms: r.took?.total_ms ?? 0, roundtrip: performance.now() - start, timing: stages(r.took), notes: r.notes || [], flags: [],
      facets: {}, facetScope: `of ${num(r.total ?? hits.length)}`, more: r.next ? () => page({ after: r.next, facets: undefined }, from + hits.length) : null,
    };
    for (const { field } of body.facets || []) {
      const values = r.facets?.[field] || [];
      // A field whose values are as good as all different is no facet.
      if (values.length < VALUES || values[0].count > 1) out.facets[field] = values;
    }
    return out;
  };
  const first = await page({}, 0);
  if (body.query && body.mode !== 'vector' && body.query.length < 300 && !first.hits.some((h) => h.keyword)) first.meant = await meant(key, info, body.query, signal);
  return first;
}

// meant is the text that was meant, where no document has its words as written.
async function meant(key, info, text, signal) {
  const all = await Promise.allSettled(info.texts.slice(0, 4).map((field) => json('POST', place(key) + '/suggest', { body: { field, text, limit: 1 }, signal })));
  return all.map((x) => x.value?.text).find((x) => x) || '';
}

// absolute turns marks of passages into marks of the whole text.
const absolute = (passages) => (passages || []).flatMap((p) => p.marks.map((m) => ({ start: p.start + m.start, end: p.start + m.end })));

const START = 420;

function head(text) {
  const cut = [...text.slice(0, 2 * START)].slice(0, START).join('');
  return { text: cut, marks: [], start: 0, cut: cut.length < text.length };
}

function collectionHit(h, n, info, body) {
  const fields = h.fields || {};
  const titleField = TITLES.find((t) => typeof fields[t] === 'string' && fields[t].trim());
  const snippets = [], meta = {};
  let titleMarks = [];
  for (const [field, passages] of Object.entries(h.highlights || {})) {
    if (field === titleField) {
      titleMarks = absolute(passages);
      continue;
    }
    for (const p of passages) snippets.push({ field, text: p.text, marks: p.marks, start: p.start, cut: !/[.!?…。！？।؟]\s*$/.test(p.text) });
  }
  for (const field of info.stored) {
    if (!snippets.length && field !== titleField && fields[field]) snippets.push({ field, ...head(fields[field]) });
  }
  for (const [name, v] of Object.entries(fields)) if (!info.texts.includes(name) && name !== titleField) meta[name] = v;
  const words = !!(body.query || body.query_string) && body.mode !== 'vector', meaning = !!body.query && body.mode !== 'keyword';
  return { n, id: h.id, title: titleField ? fields[titleField] : '', titleMarks, score: h.score, kind: h.score_kind, legs: { keyword: words, vector: meaning }, keyword: h.keyword, vector: h.vector, snippets, meta, raw: h };
}

function baseBody(key, info, q, s) {
  const body = { bases: [decodeURIComponent(split(key)[1])], query: q.trim(), mode: modeOf(s, info), top_k: s.k };
  const filter = filterText(s);
  if (filter) body.filter = filter;
  if (s.min > 0) body.score_threshold = s.min;
  if (s.depth > 0) body.depth = s.depth;
  if (s.rerank) body.rerank = true;
  return body;
}

async function searchBase(key, info, q, s, signal) {
  const start = performance.now(), body = baseBody(key, info, q, s);
  if (!body.query) throw new APIError({ detail: 'A knowledge base is searched by a query; a filter alone lists nothing.' }, 400);
  const r = await json('POST', 'knowledge/search', { body, signal });
  const hits = r.items.map((item, i) => baseHit(item, i + 1, body));
  const facets = {};
  for (const [field, get] of [['format', (m) => [m.format]], ['language', (m) => [m.language]], ['tags', (m) => m.tags || []], ['document_id', (m) => [m.document_id]]]) {
    const counts = new Map();
    for (const item of r.items) for (const v of get(item.metadata)) if (v) counts.set(v, (counts.get(v) || 0) + 1);
    facets[field] = [...counts].map(([v, n]) => ({ value: v, count: n })).sort((a, b) => b.count - a.count).slice(0, VALUES);
  }
  return {
    hits, total: -1, ms: r.took?.total_ms ?? (r.elapsed_ns || 0) / 1e6, roundtrip: performance.now() - start, timing: stages(r.took), facets, facetScope: 'in these hits',
    notes: r.notes || [], flags: r.degradation_flags || [], more: null,
  };
}

function baseHit(item, n, body) {
  const m = item.metadata, meta = {};
  for (const name of ['format', 'language', 'tags', 'authors', 'created', 'modified']) if (m[name] && String(m[name])) meta[name] = m[name];
  for (const [name, v] of Object.entries(m.meta || {})) meta['meta.' + name] = v;
  return {
    n, id: m.chunk_id, document: m.document_id, chunk: m.chunk_id, title: m.title || m.document_id, path: (m.section_path || []).join(' › '), page: m.page, pageEnd: m.page_end,
    score: item.score, kind: item.score_kind, legs: { keyword: body.mode !== 'vector', vector: body.mode !== 'keyword' }, keyword: item.keyword, vector: item.vector,
    retrieval: item.retrieval_score, retrievalKind: item.retrieval_kind, snippets: [{ field: '', text: item.content, marks: body.mode === 'vector' ? [] : occurrences(item.content, body.query), start: 0 }], meta, raw: item,
  };
}

const encoder = new TextEncoder();
const CJK = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;

// occurrences finds the words of a query in a text, as bytes. It knows no stems:
// a base's search returns no highlights, and this shows the plain ones.
export function occurrences(text, q) {
  const words = new Set();
  for (const [w] of q.matchAll(/[\p{L}\p{N}\p{M}]+/gu)) {
    if (CJK.test(w)) for (let i = 0; i + 2 <= w.length; i++) words.add(w.slice(i, i + 2));
    else if (w.length > 2 || words.size === 0) words.add(w);
  }
  if (!words.size) return [];
  const any = [...words].sort((a, b) => b.length - a.length).map((w) => (CJK.test(w) ? w : `(?<![\\p{L}\\p{N}])${w}`));
  const out = [];
  let at = 0, byte = 0;
  for (const m of text.matchAll(new RegExp(any.join('|'), 'giu'))) {
    byte += encoder.encode(text.slice(at, m.index)).length;
    const end = byte + encoder.encode(m[0]).length;
    out.push({ start: byte, end });
    [at, byte] = [m.index + m[0].length, end];
  }
  return out;
}

// explain returns the explanation tree of a hit.
export async function explain(key, info, q, s, hit) {
  if (key[0] === 's') return space.tree(hit);
  if (key[0] === 'b') return baseTree(hit);
  const body = { ...query(info, q, s), explain: true, explain_id: hit.id, k: Math.min(1000, Math.max(s.k, hit.n)), fields: undefined, highlight: undefined };
  const r = await json('POST', place(key) + '/search', { body });
  const found = r.hits.find((h) => h.id === hit.id);
  return found?.explanation || { value: hit.score, what: r.plan?.lost || 'listed by the filter' };
}

function baseTree(hit) {
  const leg = (name, l, raw) => (l ? [{ value: l.score, what: `${name} leg, rank ${l.rank}`, details: [{ value: l.raw, what: raw }] }] : []);
  const legs = [...leg('keyword', hit.keyword, 'BM25'), ...leg('vector', hit.vector, 'cosine')];
  if (hit.retrieval === undefined) return { value: hit.score, what: hit.kind, details: legs };
  return { value: hit.score, what: hit.kind, details: [{ value: hit.retrieval, what: hit.retrievalKind, details: legs }] };
}

// why tells where a document was lost: {found, text, steps, tree}.
export async function why(key, info, q, s, id) {
  if (key[0] === 'b') return whyBase(key, info, q, s, id);
  const body = { ...query(info, q, s), explain: true, explain_id: id, fields: undefined, highlight: undefined };
  const r = await json('POST', place(key) + '/search', { body });
  const at = r.hits.findIndex((h) => h.id === id), plan = r.plan || {};
  const steps = [{ name: 'documents', n: plan.documents || 0 }];
  if (filterText(s)) steps.push({ name: 'pass the filter', n: plan.matches || 0 });
  const compared = (plan.segments || []).reduce((a, x) => a + (x.distances || 0), 0);
  if (compared) steps.push({ name: 'vectors compared', n: compared });
  if (body.query || body.query_string) steps.push({ name: 'match', n: r.total ?? 0 });
  steps.push({ name: 'shown', n: r.hits.length });
  return { found: at >= 0, text: plan.lost || (at >= 0 ? `hit ${at + 1}` : 'not among the hits'), steps, tree: at >= 0 ? r.hits[at].explanation : null };
}

async function whyBase(key, info, q, s, id) {
  let record;
  try {
    record = (await json('GET', `${place(key)}/documents/${encodeURIComponent(id)}`)).document;
  } catch (e) {
    if (e.status !== 404) throw e;
    return { found: false, text: `There is no document ${id} here.`, steps: [], tree: null };
  }
  if (record.enabled === false) return { found: false, text: 'The document is disabled: no search finds it.', steps: [], tree: null };
  if (!record.chunks) return { found: false, text: 'The document has no text. ' + (record.warnings || []).join(' '), steps: [], tree: null };
  const ask = async (change) => (await json('POST', 'knowledge/search', { body: { ...baseBody(key, info, q, s), ...change } })).items.map((item, i) => baseHit(item, i + 1, { mode: modeOf(s, info), query: q }));
  const own = (hits) => hits.find((h) => h.document === id);
  const shown = await ask({});
  if (own(shown)) return { found: true, text: `Hit ${own(shown).n} of ${shown.length}.`, steps: [], tree: baseTree(own(shown)) };
  const deep = await ask({ top_k: 1000, score_threshold: 0 });
  const steps = [{ name: 'chunks', n: info.chunks || 0 }, { name: 'looked at', n: deep.length }, { name: 'shown', n: shown.length }];
  if (own(deep)) return { found: false, text: `Its best chunk would be hit ${own(deep).n}: ${s.k} are shown${s.min > 0 ? `, with a score of at least ${s.min}` : ''}.`, steps, tree: baseTree(own(deep)) };
  const alone = own(await ask({ top_k: 1000, score_threshold: 0, filter: `document_id = ${JSON.stringify(id)}` }));
  if (!alone) return { found: false, text: 'No leg returns it, even alone: none of its chunks holds a word of the query.', steps, tree: null };
  return { found: false, text: filterText(s) ? 'Lost to the filter, or far below the others.' : 'Far below the others: not among the first 1,000 chunks.', steps, tree: baseTree(alone) };
}

const WINDOW = 1 << 18;

// document reads a document for the viewer, with the citation of a hit.
export async function document(key, info, id, { chunk, hit }) {
  if (key[0] === 's') return space.document(key, info, id, { chunk, hit });
  const path = `${place(key)}/documents/${encodeURIComponent(id)}`;
  if (key[0] === 'c') {
    const d = (await json('GET', path + '?vectors=true')).document;
    return {
      id: d.id, title: TITLES.map((t) => d.text?.[t] || d.meta?.[t]).find((t) => typeof t === 'string' && t) || d.id, parts: info.texts.filter((name) => d.text?.[name]).map((name) => ({ name, text: d.text[name], marks: absolute(hit?.raw?.highlights?.[name]) })),
      vectors: Object.entries(d.vectors || {}).map(([name, values]) => ({ name, values })), meta: d.meta || {}, facts: [], citation: null,
    };
  }
  const d = (await json('GET', path)).document;
  const first = chunk || (d.chunks ? `${d.id}#${'0'.repeat(8)}` : '');
  const out = {
    id: d.id, title: d.title || d.id, parts: [], vectors: [], meta: d.meta || {}, citation: null,
    facts: [['format', d.format], ['version', num(d.version)], ['size', bytes(d.bytes)], ['pages', d.pages], ['chunks', d.chunks], ['language', d.language], ['tags', (d.tags || []).join(', ')],
      ['ingested', d.ingested], ['origin', d.origin], ['SHA-256', d.artifact_hash], ['warnings', (d.warnings || []).join(' ')]].filter(([, v]) => v).map(([k, v]) => [k, String(v)]),
    download: async () => new Uint8Array(await (await send('GET', path + '/source')).arrayBuffer()),
  };
  if (!first) return out;
  const p = (await json('POST', `${place(key)}/expand`, { body: { chunk: first, before: 1000, after: 1000, max_bytes: WINDOW } })).passage;
  const m = p.metadata, cited = chunk ? { start: m.start_offset - p.start_offset, end: m.end_offset - p.start_offset } : null;
  out.parts.push({ name: '', text: p.text, cited, note: p.truncated ? 'a part of the text' : '', pages: m.page ? pagesOf(p.text, m.start_offset - p.start_offset, m.page, cited) : null });
  if (chunk) {
    out.citation = [['source', m.source], ['section', (m.section_path || []).join(' › ')], ['page', m.page && (m.page_end ? `${m.page}–${m.page_end}` : m.page)], ['version', m.document_version],
      ['bytes of the text', `${num(m.start_offset)}–${num(m.end_offset)}`], ['bytes of the source', m.source_start !== undefined ? `${num(m.source_start)}–${num(m.source_end)}` : ''], ['chunk', `${num(m.chunk_index + 1)} of ${num(d.chunks)}`]]
      .filter(([, v]) => v).map(([k, v]) => [k, String(v)]);
  }
  return out;
}

// pagesOf cuts a text at its form feeds. The page at one byte is known; the others
// follow from it.
export function pagesOf(text, at, page, cited) {
  const data = encoder.encode(text), out = [];
  const before = data.subarray(0, at).reduce((n, b) => n + (b === 12), 0);
  let from = 0, number = page - before;
  for (const body of text.split('\f')) {
    const size = encoder.encode(body).length, to = from + size;
    const span = cited && cited.end > from && cited.start < to ? { start: Math.max(0, cited.start - from), end: Math.min(size, cited.end - from) } : null;
    out.push({ number, text: body, cited: span });
    from = to + 1;
    number++;
  }
  return out;
}

export async function stats(key, info) {
  if (key[0] === 's') return space.stats(info);
  if (key[0] === 'b') {
    const [{ base: r }, list] = await Promise.all([json('GET', place(key)), documents(key, 500)]);
    return {
      tiles: [['Documents', num(r.documents)], ['Chunks', num(r.chunks)], ['Size', bytes(list.reduce((a, d) => a + (d.bytes || 0), 0)), list.length < r.documents ? 'of the first 500' : ''],
        ['Model', r.model?.name || r.embedder || 'none', r.model ? `${num(r.model.dim)} dimensions` : r.embedder ? '' : 'by words only'], ['Analyzer', r.analyzer || '']].filter(([, v]) => v !== ''),
      documents: list,
    };
  }
  const r = await json('GET', place(key) + '/stats');
  const size = r.segments.reduce((a, x) => a + x.bytes, 0);
  return {
    tiles: [['Documents', num(r.documents)], ['Deleted', num(r.deleted), r.deleted ? 'dropped by a merge' : ''], ['Segments', num(r.segments.length)], ['Size', bytes(size)], ['In memory', bytes(r.mutable_bytes)],
      ['Log', bytes(r.wal_bytes)], ['Commits', num(r.generation)], ['Model', info.embedding?.model || 'none', info.embedding ? `${num(info.embedding.dim)} dimensions, field ${info.embedding.field}` : '']],
    segments: r.segments, fields: r.fields, problem: [r.read_only && `No writes: ${r.read_only}.`, r.background && `Last failure in the background, which lost nothing: ${r.background}.`].filter(Boolean).join(' '),
  };
}

async function documents(key, limit) {
  const r = await json('GET', `${place(key)}/documents?limit=${limit}`);
  return r.documents || [];
}

// latencies reads the server's histogram of searches.
export async function latencies(key) {
  const text = await (await send('GET', '../metrics')).text();
  const route = { c: '"/v1/collections/{collection}/search"', b: '"/v1/knowledge/search"', s: '"/v1/spaces/retrieve"' }[key[0]];
  const buckets = new Map();
  let count = 0, sum = 0;
  for (const line of text.split('\n')) {
    const m = /^(quarry_http_request_seconds)_(bucket|count|sum)\{(.*)\} (\S+)$/.exec(line);
    if (!m || !m[3].includes(route)) continue;
    const v = Number(m[4]);
    if (m[2] === 'count') count += v;
    else if (m[2] === 'sum') sum += v;
    else {
      const le = /\ble="([^"]+)"/.exec(m[3])?.[1];
      if (le) buckets.set(le, (buckets.get(le) || 0) + v);
    }
  }
  const bounds = [...buckets].map(([le, n]) => ({ le: le === '+Inf' ? Infinity : Number(le), n })).sort((a, b) => a.le - b.le);
  const own = bounds.map((b, i) => ({ le: b.le, n: b.n - (i ? bounds[i - 1].n : 0) }));
  const [from, to] = inUse(own.map((b) => b.n));
  const label = (s) => (s === Infinity ? 'more' : s < 0.001 ? `${+(s * 1e6).toPrecision(3)} µs` : s < 1 ? `${+(s * 1e3).toPrecision(3)} ms` : `${+s.toPrecision(3)} s`);
  return { count, mean: count ? (sum / count) * 1000 : 0, buckets: !count ? [] : own.slice(from, to + 1).map((b) => ({ label: label(b.le), n: b.n })) };
}

// models lists the names of models that a new target can have.
export async function models() {
  const r = await json('GET', '../v1');
  return r.models || [];
}

export async function createCollection(name, texts, model) {
  const body = { name, schema: { text: texts.map((t) => ({ name: t })) } };
  if (model) body.embed = model;
  await json('POST', 'collections', { body });
}

export async function createBase(id, model) {
  await json('POST', 'knowledge-bases', { body: model ? { id, embed: model } : { id } });
}

// bulk puts lines of JSON: {applied, errors: [{line, message}]}, lines from 1. Each
// becomes a document of the API: its text fields are the collection's, and all
// else is metadata. What is no JSON goes as it is: the server says what is wrong.
export async function bulk(key, info, lines, signal) {
  const body = lines.map((line) => asDocument(line, info)).join('\n') + '\n';
  const r = await json('POST', place(key) + '/bulk', { body, type: 'application/x-ndjson', signal });
  return { applied: r.documents, errors: (r.errors || []).map((e) => ({ line: e.line, message: (e.id ? e.id + ': ' : '') + e.reason })) };
}

const isObject = (v) => v !== null && typeof v === 'object' && !Array.isArray(v);

function asDocument(line, info) {
  let o;
  try {
    o = parseJSON(line);
  } catch {
    return line;
  }
  if (!isObject(o) || isObject(o.text) || isObject(o.meta) || isObject(o.vectors)) return line;
  const { id, _id, metadata, ...rest } = o;
  const out = { id: id ?? _id, text: {}, meta: {}, vectors: {} };
  if (typeof out.id === 'number' || typeof out.id === 'bigint') out.id = String(out.id);
  const vectors = new Set(info.vectors.map((v) => v.name));
  for (const [name, v] of Object.entries(rest)) {
    if (info.texts.includes(name) && v !== null) out.text[name] = Array.isArray(v) ? v.join('\n') : v;
    else if (vectors.has(name)) out.vectors[name] = v;
    else flatten(out.meta, name, v);
  }
  for (const [name, v] of Object.entries(isObject(metadata) ? metadata : {})) flatten(out.meta, name, v);
  return JSON.stringify(out, (k, v) => (typeof v === 'bigint' ? JSON.rawJSON(String(v)) : v));
}

function flatten(out, name, v) {
  if (isObject(v)) for (const [k, x] of Object.entries(v)) flatten(out, `${name}.${k}`, x);
  else if (v !== null) out[name] = v;
}

// upload puts one file into a knowledge base and tells how far it is.
export function upload(key, name, file, step, signal) {
  return new Promise((resolve, reject) => {
    const x = new XMLHttpRequest();
    x.open('PUT', new URL(`${place(key)}/documents/${encodeURIComponent(name)}`, BASE));
    for (const [k, v] of Object.entries(headers({ 'Content-Type': 'application/octet-stream' }))) x.setRequestHeader(k, v);
    x.upload.onprogress = (e) => step(e.lengthComputable ? (e.loaded / e.total) * 0.9 : null, e.loaded < e.total ? `${bytes(e.loaded)} of ${bytes(e.total)}` : 'reading it');
    x.upload.onload = () => step(null, 'reading it');
    x.onerror = () => reject(new APIError({ detail: 'The server does not answer.' }, 0));
    x.onabort = () => reject(new DOMException('stopped', 'AbortError'));
    x.onload = () => {
      let r = {};
      try {
        r = JSON.parse(x.responseText);
      } catch {
        r = {};
      }
      if (x.status >= 300) return reject(new APIError(r, x.status));
      const failed = [...(r.failed || []), ...(r.skipped || [])].map((f) => `${f.source}: ${f.reason}`);
      const what = r.added ? 'added' : r.updated ? 'a new version' : r.unchanged ? 'unchanged' : 'not read';
      return resolve({ problems: failed, failed: failed.length > 0, text: `${what}${r.chunks ? ', ' + counted(r.chunks, 'chunk') : ''}${r.warnings ? ', ' + counted(r.warnings, 'warning') : ''}` });
    };
    signal.addEventListener('abort', () => x.abort());
    x.send(file);
  });
}

