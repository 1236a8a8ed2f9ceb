import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.PhraseQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.TopScoreDocCollectorManager;
import org.apache.lucene.search.TotalHitCountCollectorManager;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.MMapDirectory;

/**
 * Lucene on the files that quarry bench text is run on, in the same JSON lines: {@code Peer DIR DOCS QUERIES union|and|phrase [K] [ids] [count] [share=N]}. The
 * index in DIR is made when there is none, with one thread, and merged to one segment: with ids, each document has one, indexed and stored, as quarry's have; with
 * share=N, the terms that the filters ask for, as with --filter-share. One query thread, each query's best of 30 passes.
 */
public final class Peer {
  private static final String FIELD = "t";
  private static final int PASSES = 30;
  private static final int[] SHARES = {1, 10, 50};

  public static void main(String[] args) throws IOException {
    Set<String> options = new HashSet<>(List.of(args).subList(4, args.length));
    int k = 10, share = 0;
    for (String o : options) {
      if (o.startsWith("share=")) share = Integer.parseInt(o.substring(6));
      if (Character.isDigit(o.charAt(0))) k = Integer.parseInt(o);
    }
    Path dir = Path.of(args[0]);
    Path docs = Path.of(args[1]);
    String set = docs.getFileName().toString().split("\\.")[0];
    try (MMapDirectory directory = new MMapDirectory(dir)) {
      if (!DirectoryReader.indexExists(directory)) index(directory, docs, set, options.contains("ids"), share != 0);
      try (DirectoryReader reader = DirectoryReader.open(directory)) {
        search(reader, Files.readAllLines(Path.of(args[2])), set, args[3], k, options.contains("count"), share);
      }
    }
  }

  private static void index(MMapDirectory directory, Path docs, String set, boolean ids, boolean shares) throws IOException {
    IndexWriterConfig config = new IndexWriterConfig(new StandardAnalyzer());
    config.setRAMBufferSizeMB(512);
    long start = System.nanoTime();
    int n = 0;
    double merged;
    try (IndexWriter writer = new IndexWriter(directory, config); BufferedReader lines = Files.newBufferedReader(docs)) {
      for (String line; (line = lines.readLine()) != null; n++) {
        Document d = new Document();
        d.add(new Field(FIELD, line, TextField.TYPE_NOT_STORED));
        if (ids) d.add(new StringField("id", String.format("%09d", n), Field.Store.YES));
        if (shares) for (int s : SHARES) if (at(n) < s) d.add(new StringField("share", "" + s, Field.Store.NO));
        writer.addDocument(d);
      }
      writer.forceMerge(1);
      writer.commit();
      merged = (System.nanoTime() - start) / 1e9;
    }
    long bytes = 0;
    for (String file : directory.listAll()) bytes += directory.fileLength(file);
    print("{\"kind\":\"text index\",\"engine\":\"lucene\",\"set\":\"%s\",\"index_s\":%.1f,\"docs\":%d,\"bytes\":%d}", set, merged, n, bytes);
  }

  /** What sharesOf of quarry bench text does. */
  private static int at(int row) {
    return (int) ((row * 2654435761L & 0xffffffffL) >> 16) % 100;
  }

  private static void search(DirectoryReader reader, List<String> lines, String set, String mode, int k, boolean count, int share) throws IOException {
    IndexSearcher searcher = new IndexSearcher(reader);
    searcher.setQueryCache(null);
    searcher.setSimilarity(new BM25Similarity());
    List<Query> queries = new ArrayList<>();
    for (String line : lines) if (!line.isBlank()) queries.add(filtered(parse(mode, line.trim().split("\\s+")), share));
    double[] best = new double[queries.size()];
    Arrays.fill(best, Double.MAX_VALUE);
    long hits = 0;
    for (int pass = 0; pass < PASSES; pass++) {
      hits = 0;
      for (int i = 0; i < best.length; i++) {
        long start = System.nanoTime();
        if (count) hits += searcher.search(queries.get(i), new TotalHitCountCollectorManager(searcher.getSlices()));
        else hits += searcher.search(queries.get(i), new TopScoreDocCollectorManager(k, null, k)).scoreDocs.length;
        best[i] = Math.min(best[i], (System.nanoTime() - start) / 1e3);
      }
    }
    double mean = Arrays.stream(best).average().orElse(0);
    Arrays.sort(best);
    print("{\"kind\":\"text\",\"engine\":\"lucene\",\"set\":\"%s\",\"mode\":\"%s\",\"k\":%d,\"count\":%b,\"share\":%d,\"segments\":%d,\"queries\":%d,\"hits\":%d,\"avg_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f}",
        set, mode, count ? 0 : k, count, share, reader.leaves().size(), best.length, hits, mean, best[best.length / 2], best[best.length * 99 / 100]);
  }

  private static Query filtered(Query q, int share) {
    if (share == 0 || share == 100) return q;
    return new BooleanQuery.Builder().add(q, BooleanClause.Occur.MUST).add(new TermQuery(new Term("share", "" + share)), BooleanClause.Occur.FILTER).build();
  }

  private static Query parse(String mode, String[] terms) {
    if (mode.equals("phrase")) return new PhraseQuery(FIELD, terms);
    BooleanQuery.Builder b = new BooleanQuery.Builder();
    for (String t : terms) b.add(new TermQuery(new Term(FIELD, t)), mode.equals("and") ? BooleanClause.Occur.MUST : BooleanClause.Occur.SHOULD);
    return b.build();
  }

  private static void print(String format, Object... args) {
    System.out.println(String.format(Locale.ROOT, format, args));
  }
}
