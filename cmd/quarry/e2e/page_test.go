package e2e

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestPage runs the main paths of the page over one server.
func TestPage(t *testing.T) {
	s := start(t)
	s.fill(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *server)
	}{
		{"Search", searches}, {"Facets", facets}, {"Filter", filters}, {"Explain", explains}, {"Why", tellsWhy}, {"Viewer", views}, {"Citation", cites}, {"Evidence", evidence},
		{"Keyboard", keyboard}, {"Compare", compares}, {"Statistics", counts}, {"Import", imports}, {"SharedAddress", shares}, {"Theme", themes}, {"Phone", phones},
		{"RightToLeft", rightToLeft}, {"CJK", cjk}, {"Contrast", contrast}, {"Names", names}, {"Load", loads},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

const (
	deploy  = "/?in=c%3Ahandbook&q=deploy+without+downtime"
	inSpace = "/?in=s%3Aharbor&q=tides&doc=tides.pdf&chunk=v1%3Ap2"
)

func searches(t *testing.T, s *server) {
	b := open(t, desktop, s.url+"/")
	b.ask("deploy without downtime")
	if n := b.count(".hit"); n == 0 || n > 10 {
		t.Fatalf("%d hits", n)
	}
	if b.count(".hit mark") == 0 {
		t.Error("no highlights")
	}
	for _, css := range []string{".hit:first-child .bar.keyword", ".hit:first-child .bar.vector", ".hit:first-child .bar.final", ".timing .seg", ".facet"} {
		if b.count(css) == 0 {
			t.Errorf("no %s", css)
		}
	}
	if got := b.text(".timing .legend"); !strings.Contains(got, "embed") || !strings.Contains(got, "search") {
		t.Errorf("timing: %q", got)
	}
	b.shot("search-desktop")
	// A mode is one click away, and in the address.
	b.js(`document.querySelector('input[value=keyword]').click()`, nil)
	b.wait(`location.search.includes('mode=keyword')`)
	b.idle()
	if n := b.count(".bar.vector"); n != 0 {
		t.Errorf("keyword mode shows %d vector bars", n)
	}
	b.ask("deplooy")
	if got := b.text(".status"); !strings.Contains(got, "Did you mean deploy?") {
		t.Errorf("a misspelled word: %q", got)
	}
	b.shot("did-you-mean")
	b.click(".status .linklike")
	b.wait(`document.querySelectorAll('.hit').length > 0`)
	b.visit(s.url + "/?in=c%3Ahandbook&mode=keyword&words=syntax&q=%2Bdeploy+-canary+lang%3A")
	if n := b.count(".hit mark"); n == 0 {
		t.Error("no hits by the query syntax")
	}
	b.ask("zzzzzz")
	if got := b.text(".hits"); !strings.Contains(got, "Nothing matches") {
		t.Errorf("without hits: %q", got)
	}
	if got := b.text("#live"); !strings.Contains(got, "0 hits") {
		t.Errorf("screen readers hear %q", got)
	}
}

func facets(t *testing.T, s *server) {
	b := open(t, desktop, s.url+"/?in=c%3Ahandbook&q=deploy&mode=keyword")
	before := b.text(".status")
	b.js(`[...document.querySelectorAll('.facets fieldset')].find((f) => f.querySelector('legend').innerText === 'platform').querySelector('.facet').click()`, nil)
	b.wait(`document.querySelector('.chips li')`)
	b.idle()
	if got := b.text(".status"); got == before {
		t.Errorf("a facet changes nothing: %q", got)
	}
	if got := b.text(".chips"); !strings.Contains(got, "platform") {
		t.Errorf("chips: %q", got)
	}
	if b.count(`.facet[aria-pressed="true"]`) != 1 {
		t.Error("the facet does not look chosen")
	}
	b.shot("facets")
	b.click(".chips button")
	b.wait(`!document.querySelector('.chips li')`)
	b.idle()
	if b.count(".hit") == 0 {
		t.Error("no hits without the facet")
	}
}

func filters(t *testing.T, s *server) {
	b := open(t, desktop, s.url+deploy)
	b.click(".filter")
	b.wait(`!document.querySelector('.fields').hidden`)
	if got := b.text(".fields"); !strings.Contains(got, "year") || !strings.Contains(got, "int64") {
		t.Errorf("fields: %q", got)
	}
	b.do(chromedp.SendKeys(chromedp.CSS(".filter"), `lang = "en" and year >= 2023`))
	b.wait(`location.search.includes('year')`)
	b.idle()
	b.wait(`[...document.querySelectorAll('.meta')].length && [...document.querySelectorAll('.meta')].every((m) => m.innerText.includes('en'))`)
	b.do(chromedp.SendKeys(chromedp.CSS(".filter"), " and"))
	b.wait(`document.querySelector('.filter').getAttribute('aria-invalid') === 'true'`)
	if got := b.text(".settings .error"); got == "" {
		t.Error("a bad filter tells nothing")
	}
	if b.count(".stale .hit") == 0 {
		t.Error("what was found before is gone while a filter is being typed")
	}
	b.shot("filter-error")
}

func explains(t *testing.T, s *server) {
	b := open(t, desktop, s.url+deploy)
	b.click(".hit:first-child .acts button")
	b.wait(`document.querySelector('.hit .tree ul')`)
	if got := b.text(".hit .tree"); !strings.Contains(got, "rank") {
		t.Errorf("explanation: %q", got)
	}
	b.shot("explain")
}

func tellsWhy(t *testing.T, s *server) {
	b := open(t, desktop, s.url+"/?in=c%3Ahandbook&q=deploy&mode=keyword&f=lang+%3D+%22en%22")
	for id, want := range map[string]string{"guides/11": "filter", "nowhere": ""} {
		b.js(`document.querySelector('.why').open = true; document.querySelector('.why input').value = ''; document.querySelector('.whyout').replaceChildren()`, nil)
		b.do(chromedp.SendKeys(chromedp.CSS(".why input"), id+"\r"))
		b.wait(`document.querySelector('.verdict')`)
		if got := b.text(".verdict"); !strings.Contains(got, want) || got == "" {
			t.Errorf("%s: %q", id, got)
		}
	}
	b.js(`document.querySelector('.why').scrollIntoView()`, nil)
	b.shot("why-missing")
	b.visit(s.url + "/?in=b%3Amanual&q=harbor&mode=keyword&why=%E6%89%8B%E5%BC%95%E3%81%8D.md")
	b.wait(`document.querySelector('.verdict')?.innerText.includes('No leg')`)
}

func views(t *testing.T, s *server) {
	b := open(t, desktop, s.url+deploy)
	b.click(".hit:first-child .title")
	b.wait(`document.querySelector('#viewer[open] .prose')`)
	if got := b.text("#viewer"); !strings.Contains(got, "vector of 384") || !strings.Contains(got, "platform") {
		t.Errorf("viewer: %q", got)
	}
	if b.count("#viewer mark") == 0 {
		t.Error("no match is marked in the document")
	}
	b.shot("viewer-document")
	b.press(kb.Escape)
	b.wait(`!document.querySelector('#viewer').open && !location.search.includes('doc=')`)
}

// The cited span is marked on its page, and is what the item says.
func cites(t *testing.T, s *server) {
	b := open(t, desktop, s.url+"/?in=b%3Amanual&q=ferries+go+first&mode=keyword")
	b.js(`[...document.querySelectorAll('.hit')].find((h) => h.innerText.includes('rules.txt')).querySelector('.title').click()`, nil)
	b.wait(`document.querySelector('#viewer mark.cited')`)
	if got := b.text("#viewer .citation"); !strings.Contains(got, "rules.txt") || !strings.Contains(got, "page") {
		t.Errorf("citation: %q", got)
	}
	var pages []string
	b.js(`[...document.querySelectorAll('#viewer .pageno')].map((p) => p.innerText)`, &pages)
	if fmt.Sprint(pages) != "[page 1 page 2 page 3]" {
		t.Errorf("pages %v", pages)
	}
	var marked string
	b.js(`[...document.querySelectorAll('#viewer mark.cited')].map((m) => m.textContent).join('')`, &marked)
	if !strings.Contains(marked, "Ferries go first") {
		t.Errorf("marked: %q", marked)
	}
	b.shot("viewer-citation")
	b.visit(s.url + "/?in=b%3Amanual&q=spring+tides&mode=keyword")
	b.js(`[...document.querySelectorAll('.hit')].find((h) => h.innerText.includes('tides.pdf')).querySelector('.title').click()`, nil)
	b.wait(`document.querySelector('#viewer mark.cited')`)
	b.shot("viewer-pdf")
}

// Evidence of a space: each piece opens on what it cites, on its page, and its
// address finds it again.
func evidence(t *testing.T, s *server) {
	b := open(t, desktop, s.url+"/?in=s%3Aharbor")
	b.ask("spring tides")
	if n := b.count(".hit"); n == 0 || !strings.Contains(b.text(".status"), "evidence") {
		t.Fatalf("%d hits: %q", n, b.text(".status"))
	}
	if got := b.text(".modes"); !strings.Contains(got, "Deep") || strings.Contains(got, "Vector") {
		t.Errorf("modes of a space: %q", got)
	}
	if b.count(".filterbox:not([hidden])") != 0 {
		t.Error("a space shows the filter of collections")
	}
	b.shot("evidence")
	marked := func() (s string) {
		b.js(`[...document.querySelectorAll('#viewer mark.cited')].map((m) => m.textContent).join('')`, &s)
		return s
	}
	b.js(`[...document.querySelectorAll('.hit')].find((h) => h.innerText.includes('Spring tides come')).querySelector('.title').click()`, nil)
	b.wait(`document.querySelector('#viewer mark.cited')`)
	if got := b.text("#viewer .citation"); !strings.Contains(got, "tides.pdf") || !strings.Contains(got, "2 of 3") || !strings.Contains(got, "SHA-256") {
		t.Errorf("citation: %q", got)
	}
	if got := marked(); !strings.Contains(got, "Spring tides come after the new moon") || strings.Contains(got, "Neap") {
		t.Errorf("marked: %q", got)
	}
	var page string
	b.js(`document.querySelector('#viewer mark.cited').closest('.page').querySelector('.pageno').innerText`, &page)
	if page != "page 2" {
		t.Errorf("what is cited stands on %q", page)
	}
	b.shot("evidence-pdf")
	var address string
	b.js(`location.href`, &address)
	b.visit(address) // without the hit that led there
	b.wait(`document.querySelector('#viewer mark.cited')`)
	if got := marked(); !strings.Contains(got, "Spring tides come after the new moon") {
		t.Errorf("marked by the address alone: %q", got)
	}
	b.press(kb.Escape)
	b.ask("who keeps the list of berths")
	b.js(`document.querySelector('input[value=deep]').click()`, nil)
	b.wait(`location.search.includes('mode=deep')`)
	b.idle()
	b.js(`[...document.querySelectorAll('.hit')].find((h) => h.innerText.includes('keeps the list')).querySelector('.title').click()`, nil)
	b.wait(`document.querySelector('#viewer mark.cited')`)
	if got := marked(); !strings.Contains(got, "keeps the list") {
		t.Errorf("marked: %q", got)
	}
	b.shot("evidence-source")
	b.press(kb.Escape)
	b.click(".hit:first-child .acts button")
	b.wait(`document.querySelector('.hit .tree ul')`)
	b.click(`[data-view="stats"]`)
	b.wait(`document.querySelector('.tiles')`)
	if got := b.text(".tiles"); !strings.Contains(got, "manual") || !strings.Contains(got, "384") {
		t.Errorf("tiles: %q", got)
	}
	b.shot("evidence-statistics")
	small := open(t, phone, address)
	small.wait(`document.querySelector('#viewer mark.cited')`)
	var over int
	small.js(`document.documentElement.scrollWidth - innerWidth`, &over)
	if over > 0 {
		t.Errorf("the page is %d pixels too wide", over)
	}
	small.shot("phone-evidence")
}

func keyboard(t *testing.T, s *server) {
	b := open(t, desktop, s.url+deploy)
	b.js(`document.activeElement.blur()`, nil)
	b.press("j")
	b.press("j")
	b.press("k")
	b.press("j")
	var id, second string
	b.js(`document.activeElement.dataset.id`, &id)
	b.js(`document.querySelectorAll('.hit')[1].dataset.id`, &second)
	if id != second {
		t.Errorf("after j j k j the focus is on %s, want %s", id, second)
	}
	b.shot("keyboard-focus")
	b.enter()
	b.wait(`document.querySelector('#viewer').open`)
	b.press(kb.Escape)
	b.wait(`!document.querySelector('#viewer').open`)
	b.js(`document.activeElement.dataset.id ?? ''`, &id)
	if id != second {
		t.Errorf("after Esc the focus is on %q, want %s", id, second)
	}
	b.press("e")
	b.wait(`document.querySelector('.hit .tree')`)
	b.press("/")
	b.wait(`document.activeElement.id === 'q'`)
	b.press(kb.Escape)
	b.wait(`document.activeElement.id !== 'q'`)
	b.press("?")
	b.wait(`document.querySelector('#help').open`)
	b.shot("help")
	b.press(kb.Escape)
	b.wait(`!document.querySelector('#help').open`)
	// Every stop of the tab key shows where it is.
	for range 25 {
		b.press(kb.Tab)
		var hidden string
		b.js(`(() => { const e = document.activeElement, s = getComputedStyle(e), r = (e.matches('.mode input') ? e.nextElementSibling : e.closest('.box') && e.id === 'q' ? e.closest('.box') : e);
			const t = getComputedStyle(r); return e === document.body || t.outlineStyle !== 'none' || t.boxShadow !== 'none' ? '' : e.outerHTML.slice(0, 120); })()`, &hidden)
		if hidden != "" {
			t.Errorf("no focus to be seen on %s", hidden)
		}
	}
}

func compares(t *testing.T, s *server) {
	b := open(t, look{width: 1360, height: 1000}, s.url+"/?view=compare&in=c%3Ahandbook&q=deploy+without+downtime")
	b.wait(`document.querySelectorAll('.pane.a .rank').length && document.querySelectorAll('.pane.b .rank').length`)
	if got := b.text(".agree"); !strings.Contains(got, "hits in both") {
		t.Errorf("agreement: %q", got)
	}
	if b.count(".slope path") == 0 || b.count(".move") == 0 {
		t.Error("nothing shows what moved")
	}
	b.js(`document.querySelector('.pane.b input[value=vector]').click()`, nil)
	b.wait(`location.search.includes('b.mode=vector')`)
	b.idle()
	b.shot("compare")
}

func counts(t *testing.T, s *server) {
	b := open(t, desktop, s.url+deploy)
	b.click(`[data-view="stats"]`)
	b.wait(`document.querySelectorAll('.plot svg').length >= 3`)
	if got := b.text(".tiles"); !strings.Contains(got, fmt.Sprint(len(guides))) || !strings.Contains(got, "384") {
		t.Errorf("tiles: %q", got)
	}
	if got := b.text(".plots"); !strings.Contains(got, "all clients") {
		t.Errorf("no latencies of the server: %q", got)
	}
	b.shot("statistics")
	b.visit(s.url + "/?view=stats&in=b%3Amanual")
	b.wait(`document.querySelector('.plot svg')`)
	b.shot("statistics-base")
}

func imports(t *testing.T, s *server) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	note, odd := file("note.md", "# Fog\n\nIn fog the harbor is closed.\n"), file("photo.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\x00")
	b := open(t, desktop, s.url+"/?view=import&in=b%3Amanual")
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#pick"), []string{note, odd}))
	b.wait(`document.querySelectorAll('.job.done, .job.failed').length === 2`)
	if got := b.text(".job.done"); !strings.Contains(got, "note.md") || !strings.Contains(got, "added") {
		t.Errorf("done: %q", got)
	}
	if got := b.text(".job.failed"); !strings.Contains(got, "photo.png") {
		t.Errorf("failed: %q", got)
	}
	b.shot("import-files")

	// Dropped lines become a new collection; a bad one is told with its number.
	b.js(`(() => { const c = document.getElementById('into'); c.value = 'new:c'; c.dispatchEvent(new Event('change')); document.getElementById('newname').value = 'dropped';
		document.getElementById('newmodel').value = '';
		const lines = Array.from({ length: 2500 }, (_, i) => i === 1200 ? 'no JSON' : JSON.stringify({ id: i, title: 'Line ' + i, text: 'dropped harbor ' + i, size: i, metadata: { kind: 'k' + i % 3 } }));
		lines[7] = '{"id":"big","title":"Big","serial":9007199254740993}';
		const d = new DataTransfer(); d.items.add(new File([lines.join('\n')], 'lines.jsonl'));
		document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { dataTransfer: d, bubbles: true, cancelable: true })); })()`, nil)
	b.wait(`document.querySelectorAll('.job').length === 3 && document.querySelector('.job:first-child:is(.done, .warned, .failed)')`)
	if got := b.text(".job:first-child"); !strings.Contains(got, "2,499 documents of 2,500 lines") || !strings.Contains(got, "line 1,201") {
		t.Errorf("import: %q", got)
	}
	b.shot("import-lines")
	var got struct {
		Hits []json.RawMessage `json:"hits"`
	}
	s.send(t, http.MethodPost, "/v1/collections/dropped/search", map[string]any{"filter": "serial = 9007199254740993"}, &got)
	if len(got.Hits) != 1 {
		t.Errorf("%d documents hold the large integer as it was", len(got.Hits))
	}
	b.click(`[data-view="search"]`)
	b.wait(`document.querySelectorAll('.hit').length === 10`)
	b.click(".more button")
	b.wait(`document.querySelectorAll('.hit').length === 20`)
}

// What is seen is in the address: another tab shows the same.
func shares(t *testing.T, s *server) {
	b := open(t, desktop, s.url+"/?in=c%3Ahandbook")
	b.ask("backup")
	b.js(`document.querySelector('input[value=keyword]').click()`, nil)
	b.wait(`location.search.includes('mode=keyword')`)
	b.idle()
	b.js(`document.querySelector('.facet').click()`, nil)
	b.wait(`location.search.includes('is=')`)
	b.idle()
	b.click(".hit:first-child .title")
	b.wait(`document.querySelector('#viewer[open] .prose')`)
	var address string
	b.js(`location.href`, &address)
	other := open(t, desktop, address)
	other.wait(`document.querySelector('#viewer[open] .prose')`)
	for _, css := range []string{"#viewer-title", ".chips", ".hits"} {
		if a, b := b.text(css), other.text(css); a != b {
			t.Errorf("%s: %q there, %q here", css, a, b)
		}
	}
	// And the browser's way back leads back.
	b.do(chromedp.NavigateBack())
	b.wait(`!document.querySelector('#viewer').open`)
	b.do(chromedp.NavigateBack())
	b.wait(`!document.querySelector('.chips li')`)
}

func themes(t *testing.T, s *server) {
	b := open(t, desktopDark, s.url+deploy)
	ground := func() (s string) {
		b.js(`getComputedStyle(document.body).backgroundColor`, &s)
		return s
	}
	dark := ground()
	b.shot("search-dark")
	b.js(`document.activeElement.blur()`, nil)
	b.press("t")
	if light := ground(); light == dark {
		t.Errorf("t does not change the theme: %s", light)
	}
	b.visit(s.url + deploy)
	if again := ground(); again == dark {
		t.Error("the choice is forgotten")
	}
	b.js(`localStorage.clear()`, nil)
}

func phones(t *testing.T, s *server) {
	for _, l := range []look{phone, phoneDark} {
		name := "phone"
		if l.dark {
			name = "phone-dark"
		}
		b := open(t, l, s.url+deploy)
		wide := func() {
			t.Helper()
			var over int
			b.js(`document.documentElement.scrollWidth - innerWidth`, &over)
			if over > 0 {
				t.Errorf("%s: the page is %d pixels too wide", name, over)
			}
		}
		wide()
		b.shot(name + "-search")
		b.click(".hit:first-child .title")
		b.wait(`document.querySelector('#viewer[open] .prose')`)
		wide()
		b.shot(name + "-viewer")
		b.click("#viewer .close")
		for _, view := range []string{"compare", "stats", "import"} {
			b.click(`[data-view="` + view + `"]`)
			b.wait(`document.querySelector('.view.` + map[string]string{"compare": "compare", "stats": "stats", "import": "import"}[view] + `')`)
			b.idle()
			wide()
			b.shot(name + "-" + view)
		}
	}
}

func rightToLeft(t *testing.T, s *server) {
	b := open(t, desktop, s.url+"/?in=c%3Ahandbook")
	b.ask("نشر التطبيق بدون توقف")
	var dirs []string
	b.js(`['#q', '.hit:first-child .title', '.hit:first-child .snippet'].map((c) => getComputedStyle(document.querySelector(c)).direction)`, &dirs)
	if fmt.Sprint(dirs) != "[rtl rtl rtl]" {
		t.Errorf("directions %v", dirs)
	}
	if b.count(".hit:first-child mark") == 0 {
		t.Error("no highlights")
	}
	b.shot("right-to-left")
}

func cjk(t *testing.T, s *server) {
	b := open(t, desktop, s.url+"/?in=c%3Ahandbook&mode=keyword")
	for _, query := range []string{"バックアップ", "零停机部署", "배포"} {
		b.ask(query)
		if b.count(".hit mark") == 0 {
			t.Errorf("%s: no highlights", query)
		}
		if query == "バックアップ" {
			b.shot("cjk")
		}
	}
}

//go:embed testdata/contrast.js
var contrastJS string

// Text has a contrast of 4.5 to its ground (3 when large), in both themes (WCAG
// 2.2 AA, 1.4.3).
func contrast(t *testing.T, s *server) {
	for _, l := range []look{desktop, desktopDark} {
		b := open(t, l, s.url+"/")
		for _, address := range []string{deploy + "&is=lang%3D%22en%22&doc=guides%2F01", "/?view=compare&in=c%3Ahandbook&q=deploy", "/?view=stats&in=c%3Ahandbook", "/?view=import", "/?in=b%3Amanual&q=harbor",
			inSpace, "/?view=compare&in=s%3Aharbor&q=tides&b.mode=research"} {
			b.visit(s.url + address)
			b.wait(`document.querySelector('.hit, .rank, .plot, .drop')`)
			var bad []string
			b.js(contrastJS, &bad)
			if len(bad) > 0 {
				t.Errorf("%s, dark %v: %s", address, l.dark, strings.Join(bad, "\n"))
			}
		}
	}
}

// Everything that can be worked has a name for those who do not see it, and ids
// are there once.
func names(t *testing.T, s *server) {
	b := open(t, desktop, s.url+deploy+"&doc=guides%2F01")
	for _, address := range []string{deploy + "&doc=guides%2F01", "/?view=compare&in=c%3Ahandbook&q=deploy", "/?view=stats&in=c%3Ahandbook", "/?view=import", inSpace} {
		b.visit(s.url + address)
		var bad []string
		b.js(`[...document.querySelectorAll('button, a[href], input, select, [role=img], dialog[open]')].filter((e) => {
			const labelled = e.getAttribute('aria-labelledby');
			return !(e.getAttribute('aria-label') || e.labels?.length || (labelled && document.getElementById(labelled)) || (!/^(INPUT|SELECT)$/.test(e.tagName) && e.textContent.trim()));
		}).map((e) => e.outerHTML.slice(0, 160)).concat([...document.querySelectorAll('[id]')].filter((e) => document.querySelectorAll('#' + CSS.escape(e.id)).length > 1).map((e) => 'twice: ' + e.id))`, &bad)
		if len(bad) > 0 {
			t.Errorf("%s: %s", address, strings.Join(bad, "\n"))
		}
	}
}

// A server that wants a key is asked for one, and the key does not get into the
// address.
func TestKeyOfThePage(t *testing.T) {
	data := t.TempDir()
	out, err := exec.Command(binary, "keys", "create", "--data", data, "--name", "page", "--access", "admin").Output()
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`[A-Za-z0-9_-]{20,}`).FindString(string(out))
	s := launch(t, data, "serve")
	b := newTab(t, desktop, s.url)
	b.do(chromedp.Navigate(s.url + "/"))
	b.wait(`document.querySelector('#key').open`)
	b.shot("key")
	b.do(chromedp.SendKeys(chromedp.CSS("#key input"), "wrong\r"))
	b.wait(`document.querySelector('#key').open && document.querySelector('main .error')`)
	b.do(chromedp.SendKeys(chromedp.CSS("#key input"), key+"\r"))
	b.wait(`document.documentElement.dataset.ready !== undefined && !document.querySelector('#key').open`)
	var address string
	b.js(`location.href`, &address)
	if key == "" || strings.Contains(address, key) {
		t.Errorf("key %q, address %s", key, address)
	}
}

// loads tells how long it takes until the page can be used, and how much it is.
func loads(t *testing.T, s *server) {
	b := open(t, desktop, s.url+"/")
	var m struct {
		Usable, Load, Bytes float64
	}
	b.js(`(() => { const n = performance.getEntriesByType('navigation')[0], all = [n, ...performance.getEntriesByType('resource').filter((r) => r.name.includes('/page/'))];
		return { usable: performance.getEntriesByName('quarry-usable')[0].startTime, load: n.loadEventEnd, bytes: all.reduce((a, r) => a + r.decodedBodySize, 0) }; })()`, &m)
	t.Logf("usable %.0f ms after the start of the navigation, %.0f ms after load; %.0f bytes", m.Usable, m.Usable-m.Load, m.Bytes)
	if m.Bytes == 0 || m.Bytes > 150_000 {
		t.Errorf("the page has %.0f bytes, at most 150,000", m.Bytes)
	}
}
