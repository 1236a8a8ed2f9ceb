package serve

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/storage"
)

const (
	keysName    = "keys.json" // in the data directory
	keysVersion = 1
	keyPrefix   = "qk"
	maxKeys     = 1000
	maxKeysFile = 1 << 20
	idBytes     = 5  // 8 characters
	secretBytes = 20 // 32 characters
)

// A Key is an API key as its file has it: without the key itself.
type Key struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Access string `json:"access"`
	// Account of the catalogue as which requests with the key act; empty: none.
	Account string    `json:"account,omitempty"`
	Created time.Time `json:"created"`
	Salt    string    `json:"salt"` // hexadecimal
	Hash    string    `json:"hash"` // SHA-256 of salt and secret, hexadecimal
}

type keysFile struct {
	Version int   `json:"version"`
	Keys    []Key `json:"keys"`
}

// ReadKeys reads a file of keys; one that is not there holds none.
func ReadKeys(path string) ([]Key, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only: nothing to lose
	b, err := io.ReadAll(io.LimitReader(f, maxKeysFile+1))
	if err != nil {
		return nil, err
	}
	var k keysFile
	if err := json.Unmarshal(b, &k); err != nil || len(b) > maxKeysFile {
		return nil, storage.Corruptf(path, 0, "keys: %v", err)
	}
	if k.Version != keysVersion {
		return nil, &storage.VersionError{File: path, Have: uint32(max(k.Version, 0)), Min: keysVersion, Max: keysVersion}
	}
	for i := range k.Keys {
		if _, err := k.Keys[i].bind(); err != nil {
			return nil, storage.Corruptf(path, 0, "key %d: %v", i, err)
		}
	}
	return k.Keys, nil
}

// writeKeys writes the file, whole and durable or not at all, for its owner
// only.
func writeKeys(path string, keys []Key) (err error) {
	b, err := json.MarshalIndent(keysFile{keysVersion, keys}, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return storage.OS{}.SyncDir(filepath.Dir(path))
}

// change reads the keys, has f change them, and writes them, one process at a
// time.
func change(path string, f func([]Key) ([]Key, error)) (err error) {
	if err := (storage.OS{}).MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	lock, err := storage.OS{}.Lock(path+".lock", true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	keys, err := ReadKeys(path)
	if err != nil {
		return err
	}
	if keys, err = f(keys); err != nil {
		return err
	}
	return writeKeys(path, keys)
}

// CreateKey adds a key to the file and returns it, with the key as a client
// sends it: the only time it is to be had. account is the account of the
// catalogue that it acts as; empty binds it to none.
func CreateKey(path, name, account string, access httpapi.Access) (key string, k Key, err error) {
	if err := checkName("name of a key", name, 100); err != nil {
		return "", k, err
	}
	if account != "" {
		if err := checkName("account", account, catalog.MaxID); err != nil {
			return "", k, err
		}
	}
	secret, salt := make([]byte, secretBytes), make([]byte, 16)
	rand.Read(secret) // never fails
	rand.Read(salt)
	encode := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString
	id := make([]byte, idBytes)
	rand.Read(id)
	k = Key{ID: strings.ToLower(encode(id)), Name: name, Access: access.String(), Account: account, Created: time.Now().UTC().Truncate(time.Second), Salt: hex.EncodeToString(salt)}
	text := strings.ToLower(encode(secret))
	sum := hash(salt, text)
	k.Hash = hex.EncodeToString(sum[:])
	err = change(path, func(keys []Key) ([]Key, error) {
		if len(keys) >= maxKeys {
			return nil, fmt.Errorf("%w: %d keys are the most there can be", storage.ErrTooLarge, maxKeys)
		}
		return append(keys, k), nil
	})
	return keyPrefix + "_" + k.ID + "_" + text, k, err
}

// RevokeKey removes a key from the file; storage.ErrNotFound when there is none
// of that id.
func RevokeKey(path, id string) error {
	return change(path, func(keys []Key) ([]Key, error) {
		i := slices.IndexFunc(keys, func(k Key) bool { return k.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("%w: key %q", storage.ErrNotFound, id)
		}
		return slices.Delete(keys, i, i+1), nil
	})
}

func checkName(what, s string, most int) error {
	if s == "" || len(s) > most || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return storage.Invalidf("%s: %.120q: want 1 to %d bytes without control characters", what, s, most)
	}
	return nil
}

func hash(salt []byte, secret string) [sha256.Size]byte {
	var room [16 + 64]byte
	return sha256.Sum256(append(append(room[:0], salt...), secret...))
}

// A boundKey is a key ready to be compared.
type boundKey struct {
	id, name string
	account  string
	access   httpapi.Access
	salt     []byte
	hash     []byte
}

func (k *Key) bind() (boundKey, error) {
	b := boundKey{id: k.ID, name: k.Name, account: k.Account}
	var err, err2, err3 error
	b.access, err = httpapi.ParseAccess(k.Access)
	b.salt, err2 = hex.DecodeString(k.Salt)
	b.hash, err3 = hex.DecodeString(k.Hash)
	if err == nil && err2 == nil && err3 == nil && (len(b.salt) < 8 || len(b.hash) != sha256.Size || k.ID == "") {
		err = errors.New("id, salt or hash is too short")
	}
	return b, errors.Join(err, err2, err3)
}

// match tells whether a secret is the key's, in the same time whatever it is.
func (k *boundKey) match(secret string) bool {
	sum := hash(k.salt, secret)
	return subtle.ConstantTimeCompare(sum[:], k.hash) == 1
}
