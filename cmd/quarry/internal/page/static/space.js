// Spaces: evidence with citations, and the cited span in its source. The shapes
// it returns are those of api.js.

import { json, place, stages, occurrences, pagesOf } from './api.js';
import { bytes, num } from './dom.js';

const idOf = (key) => key.slice(2);

// describe tells what a space is, and who may be named as asking: an admin's key,
// or none, that is bound to no account has to name one.
export async function describe(key) {
  const [{ space }, root] = await Promise.all([json('GET', place(key)), json('GET', '../v1')]);
  let accounts = [];
  if (root.access === 'admin' && !root.account) {
    const all = (await json('GET', `workspaces/${encodeURIComponent(space.workspace)}/accounts`)).accounts;
    accounts = all.filter((a) => (a.grants || []).some((g) => g.space === '*' || g.space === space.id)).map((a) => a.id);
  }
  const p = space.published, profile = p?.profile || space.draft;
  return {
    kind: 'space', name: space.name || space.id, space, accounts, mode: profile.defaultMode, texts: [], stored: [], vectors: [], embeds: false, meta: [], documents: 0,
    about: p ? `evidence from the base ${space.base}, as published ${p.at.slice(0, 10)}` : 'it was never published',
  };
}

const asked = (info, s) => (info.accounts.length ? { account: info.accounts.includes(s.as) ? s.as : info.accounts[0] } : {});

export async function search(key, info, q, s, signal) {
  const start = performance.now(), body = { spaces: [idOf(key)], query: q.trim(), top_n: Math.min(100, s.k), ...asked(info, s) };
  if (['fast', 'deep', 'research'].includes(s.mode)) body.mode = s.mode;
  const r = await json('POST', 'spaces/retrieve', { body, signal });
  const trace = r.process_data.knowledge_fs, own = trace.per_space?.[0];
  const hits = r.result.map((e, i) => evidence(e, i + 1, q, own));
  const calls = r.metrics.model_calls ? `, ${r.metrics.model_calls} calls of a model` : '';
  return {
    hits, unit: hits.length === 1 ? 'piece of evidence' : 'pieces of evidence', total: -1, ms: r.took?.total_ms ?? r.metrics.total_ms, roundtrip: performance.now() - start, timing: stages(r.took), facets: {}, facetScope: '', more: null,
    about: own ? ` · mode ${r.metrics.mode}, ${num(own.candidate_count)} looked at${calls} · publication ${num(own.publication_revision)}` : '', notes: [], flags: r.metrics.degradation_flags || [],
  };
}

const LEGS = { dense: 'by meaning', fts: 'by words' };

// evidence is a hit. Its chunk is the place that it cites, so that its address
// finds it again.
function evidence(e, n, q, own) {
  const c = e.metadata.citation, at = c.start_offset === undefined ? `p${c.page_number || 1}` : `${c.start_offset}-${c.end_offset}`;
  const found = (e.metadata.sources || []).map((x) => LEGS[x] || x).join(' and ');
  const path = [...(c.section_path || [])];
  return {
    n, id: `${c.document_id}#${at}`, document: c.document_id, chunk: `v${c.document_version}:${at}`, title: e.title || c.document_id,
    path: [path.join(' › '), c.document_version > 1 ? `version ${num(c.document_version)}` : '', found ? `found ${found}` : 'beside what was found'].filter(Boolean).join(' · '), page: c.page_number,
    score: e.metadata.score, kind: 'score', legs: { keyword: false, vector: false }, snippets: [{ field: '', text: e.content, marks: occurrences(e.content, q), start: 0 }], meta: {}, raw: e, own,
  };
}

export function tree(hit) {
  const c = hit.raw.metadata.citation;
  return { value: hit.score, what: `score of the last step${hit.own ? ` of mode ${hit.own.mode}` : ''}`, details: [
    { what: (hit.raw.metadata.sources || []).map((x) => LEGS[x] || x).join(' and ') || 'a neighbor of what was found' },
    { what: `version ${c.document_version} of ${c.document_id}, SHA-256 ${c.artifact_hash}` },
    ...(hit.own ? [{ what: `trace ${hit.own.trace_id}` }] : []),
  ] };
}

// document reads what a hit cites, or what an address says: v2:120-340, v1:p3.
export async function document(key, info, id, { chunk, hit }) {
  const m = /^v(\d+):(?:p(\d+)|(\d+)-(\d+))$/.exec(chunk) || [];
  const body = { document_id: id, document_version: Number(m[1] || 1) };
  if (m[3]) Object.assign(body, { start_offset: Number(m[3]), end_offset: Number(m[4]) });
  else if (m[2]) body.page_number = Number(m[2]);
  const c = hit?.raw?.metadata?.citation;
  if (c?.page_number) body.page_number = c.page_number;
  if (c && !m[3]) body.content = hit.raw.content;
  const account = asked(info, { as: new URLSearchParams(location.search).get('as') || '' }).account;
  const p = await json('POST', `${place(key)}/passage${account ? '?account=' + encodeURIComponent(account) : ''}`, { body });
  const d = p.document, cited = { start: p.start_offset - p.offset, end: p.end_offset - p.offset };
  const span = `${num(p.start_offset)}–${num(p.end_offset)}`;
  return {
    id, title: d.title || id, vectors: [], meta: d.meta || {},
    parts: [{ name: '', text: p.text, cited, note: p.truncated ? 'a part of the text' : '', pages: p.page ? pagesOf(p.text, cited.start, p.page, cited) : null }],
    citation: [['source', d.source], ['section', (c?.section_path || []).join(' › ')], ['page', p.page ? num(p.page) + (d.pages ? ` of ${num(d.pages)}` : '') : ''], ['version', num(d.version)],
      [p.of === 'source' ? 'bytes of the source' : 'bytes of its text', span], ['SHA-256', d.artifact_hash]].filter(([, v]) => v),
    facts: [['format', d.format], ['size', bytes(d.bytes)], ['language', d.language], ['tags', (d.tags || []).join(', ')], ['ingested', d.ingested]].filter(([, v]) => v).map(([k, v]) => [k, String(v)]),
  };
}

export function stats(info) {
  const { published: p, embedding: e, base, draft } = info.space;
  const t = p?.profile.scoreThreshold;
  return { tiles: [['Base', base], ['Publication', p ? num(p.revision) : 'none', p ? p.at.slice(0, 10) : ''], ['Generation', p ? num(p.generation) : ''], ['Mode', info.mode], ['Top K', p ? num(p.profile.topK) : ''],
    ['Threshold', t?.enabled ? `${t.value} (${t.stage})` : 'none'], ['Reranker', p?.profile.rerank.enabled ? p.profile.rerank.model : 'none'], ['Model', e?.name || 'none', e ? `${num(e.dim)} dimensions` : 'by words only'],
    ['Draft', `revision ${num(draft.revision)}`, p && draft.revision !== p.profile.revision ? 'not published' : '']].filter(([, v]) => v !== '') };
}
