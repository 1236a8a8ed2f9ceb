package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// client asks for no longer than a test waits.
var client = &http.Client{Timeout: 60 * time.Second}

// request sends a request and decodes the answer into out, which may be nil; what
// is no success fails the test.
func (s *server) request(t *testing.T, method, path, media string, body []byte, out any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", media)
	}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode >= 300 {
		t.Fatalf("%s %s: %s\n%s", method, path, res.Status, data)
	}
	if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			t.Fatalf("%s %s: %v\n%s", method, path, err, data)
		}
	}
}

// send sends JSON.
func (s *server) send(t *testing.T, method, path string, body, out any) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	s.request(t, method, path, "application/json", data, out)
}

// A doc is a document of a collection.
type doc struct {
	ID   string            `json:"id"`
	Text map[string]string `json:"text,omitempty"`
	Meta map[string]any    `json:"meta,omitempty"`
}

func (s *server) put(t *testing.T, collection string, docs ...doc) {
	t.Helper()
	s.send(t, http.MethodPut, "/v1/collections/"+collection+"/documents", map[string]any{"documents": docs}, nil)
}

func (s *server) putFile(t *testing.T, base, name string, data []byte) {
	t.Helper()
	s.request(t, http.MethodPut, "/v1/knowledge-bases/"+base+"/documents/"+url.PathEscape(name), "application/octet-stream", data, nil)
}

// guides are made-up pages in several languages and two directions.
var guides = []struct{ title, text, lang, platform string }{
	{"Rolling updates without downtime", "Start the new version beside the old one, wait until its health check answers, and only then move the traffic. The old instance is drained before it stops, so a deploy shows to nobody.", "en", "linux"},
	{"Health checks and readiness", "A readiness probe tells when an instance may receive traffic; a liveness probe tells when it must be restarted. Mixing the two is the usual cause of downtime during a deploy.", "en", "linux"},
	{"Canary releases in three steps", "Send one percent of the traffic to the new release, watch the error rate for ten minutes, then go on with ten and with a hundred percent.", "en", "osx"},
	{"Blue and green: what it costs", "Two full environments cost twice the machines, but the way back is one switch of the load balancer and takes a second.", "en", "windows"},
	{"Draining connections before a stop", "Stop accepting, finish what is in flight, then exit. Draining takes as long as the slowest request, so give requests a limit.", "en", "linux"},
	{"How the load balancer sees a new version", "The balancer asks every two seconds. Three failures in a row take an instance out, two successes bring it back.", "en", "linux"},
	{"Database migrations under traffic", "Expand, migrate, contract: add the column, write to both, read from the new one, and drop the old one a release later.", "en", "windows"},
	{"Backups that can be restored", "A backup that was never restored is a hope. Restore last night's copy every morning and count the rows.", "en", "linux"},
	{"Keys and who may use them", "A key that reads is not a key that writes. Keep them apart, rotate both, and store only their hashes.", "en", "osx"},
	{"Reading a latency histogram", "The mean hides the slow requests. Look at the ninety-ninth percentile, and at how it moves during a deploy.", "en", "linux"},
	{"Ausrollen ohne Ausfall", "Die neue Version startet neben der alten; erst wenn ihre Prüfung antwortet, wird der Verkehr umgestellt. So merkt niemand die Auslieferung.", "de", "linux"},
	{"Sicherungen zurückspielen", "Eine Sicherung, die nie zurückgespielt wurde, ist nur eine Hoffnung. Jeden Morgen wird die letzte Kopie geprüft.", "de", "windows"},
	{"Déployer sans interruption", "La nouvelle version démarre à côté de l'ancienne ; le trafic ne change qu'après le contrôle de santé.", "fr", "linux"},
	{"نشر التطبيق بدون توقف الخدمة", "شغّل النسخة الجديدة بجانب القديمة، وانتظر حتى ينجح فحص السلامة، ثم حوّل حركة المرور إليها تدريجيًا.", "ar", "linux"},
	{"النسخ الاحتياطي واستعادته", "نسخة احتياطية لم تُستعد قط ليست إلا أملًا. استعد نسخة الأمس كل صباح وعدّ الصفوف.", "ar", "osx"},
	{"פריסה ללא השבתה", "מפעילים את הגרסה החדשה לצד הישנה, מחכים לבדיקת התקינות, ורק אז מעבירים את התעבורה.", "he", "linux"},
	{"サービスを止めずにデプロイする方法", "新しいバージョンを古いバージョンと並べて起動し、ヘルスチェックが成功してからトラフィックを切り替えます。", "ja", "linux"},
	{"バックアップと復元", "一度も復元したことのないバックアップは、ただの希望にすぎません。毎朝、昨夜のコピーを復元して行数を数えます。", "ja", "osx"},
	{"零停机部署指南", "先启动新版本，等待健康检查通过后再切换流量，最后停止旧版本，用户不会察觉这次部署。", "zh", "linux"},
	{"备份与恢复", "从未恢复过的备份只是一种希望。每天早上恢复昨晚的副本，并核对行数。", "zh", "windows"},
	{"중단 없는 배포", "새 버전을 이전 버전 옆에서 시작하고, 상태 확인이 통과한 뒤에 트래픽을 옮깁니다.", "ko", "linux"},
}

// fill makes the collection "handbook", searched by words and by meaning, with
// copies of the guides for each year, and the knowledge base "manual".
func (s *server) fill(t *testing.T) {
	t.Helper()
	s.send(t, http.MethodPost, "/v1/collections", map[string]any{"name": "handbook", "embed": "e5", "schema": map[string]any{
		"text": []any{map[string]any{"name": "title", "boost": 2}, map[string]any{"name": "text"}},
		"meta": map[string]any{"lang": "keyword", "platform": "keyword", "year": "int64", "created": "time", "draft": "bool", "tags": "keyword"},
	}}, nil)
	var docs []doc
	for i, g := range guides {
		year := 2021 + i%5
		docs = append(docs, doc{ID: fmt.Sprintf("guides/%02d", i+1), Text: map[string]string{"title": g.title, "text": g.text}, Meta: map[string]any{
			"lang": g.lang, "platform": g.platform, "year": year, "created": fmt.Sprintf("%d-%02d-01T08:00:00Z", year, 1+i%12), "draft": i%7 == 0, "tags": []string{"ops", []string{"deploy", "backup", "access"}[i%3]}}})
	}
	s.put(t, "handbook", docs...)
	s.send(t, http.MethodPost, "/v1/knowledge-bases", map[string]any{"id": "manual", "embed": "e5", "chunk": map[string]any{"strategy": "count", "unit": "page", "size": 1}}, nil)
	s.putFile(t, "manual", "guide/harbor.md", []byte(harborGuide))
	s.putFile(t, "manual", "rules.txt", []byte("Harbor rules, first page.\n\nShips wait outside until the harbor master calls.\fSecond page.\n\nThe harbor master calls by radio, in the order of arrival. Ferries go first.\fThird page.\n\nHarbor dues are paid before leaving.\n"))
	s.putFile(t, "manual", "tides.pdf", pdf("Tide tables for the harbor.", "Spring tides come after the new moon. The harbor is deepest then.", "Neap tides are weak."))
	s.putFile(t, "manual", "手引き.md", []byte("# 港の手引き\n\n港には毎日二回、潮が満ちます。船は沖で待ちます。\n"))
	s.send(t, http.MethodPost, "/v1/workspaces", map[string]any{"id": "port"}, nil)
	s.send(t, http.MethodPost, "/v1/workspaces/port/accounts", map[string]any{"id": "pilot", "grants": []any{map[string]any{"space": "*", "permission": "use"}}}, nil)
	s.send(t, http.MethodPost, "/v1/spaces", map[string]any{"id": "harbor", "workspace": "port", "base": "manual", "name": "Harbor office"}, nil)
	s.send(t, http.MethodPost, "/v1/spaces/harbor/publish", map[string]any{"draft_revision": 1}, nil)
}

const harborGuide = `# Harbor guide

Welcome to the harbor. This guide tells how a ship comes in and leaves.

## Coming in

A ship waits outside until the harbor master calls. The pilot comes aboard at the first buoy, and the tug takes the line.

## Berths

Berth one is for ferries. Berths two to nine are given by length; the harbor master keeps the list.

### Empty berths

An empty berth is lit green at night.

## Leaving

Harbor dues are paid first. Then the ship blows once and casts off with the tide.
`

// pdf is a document of plain pages.
func pdf(pages ...string) []byte {
	var b bytes.Buffer
	var at []int
	object := func(format string, args ...any) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n"+format+"\nendobj\n", append([]any{len(at)}, args...)...)
	}
	b.WriteString("%PDF-1.4\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	var kids strings.Builder
	for i := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 4+2*i)
	}
	object("<< /Type /Pages /Kids [ %s] /Count %d >>", kids.String(), len(pages))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	for i, text := range pages {
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", 5+2*i)
		stream := fmt.Sprintf("BT /F1 14 Tf 72 760 Td (%s) Tj ET", text)
		object("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, off := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", off)
	}
	fmt.Fprintf(&b, "trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return b.Bytes()
}
