package pdf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rc4"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
)

// crypt opens files that anybody may read: those whose user password is empty.
// RC4 and AES of versions 1, 2, 4 and 5.
type crypt struct {
	key      []byte
	aes, v5  bool
	identity bool // strings and streams are stored plain
	meta     bool // metadata streams are encrypted too
}

var padding = []byte("\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A")

// decrypt prepares f.crypt, or returns ErrEncrypted.
func (f *file) decrypt() error {
	e := f.dict(f.trailer["Encrypt"])
	if e == nil {
		return nil
	}
	if n := f.name(e["Filter"]); n != "Standard" {
		return fmt.Errorf("%w: security handler %q", ErrEncrypted, string(n))
	}
	v, r := f.int(e["V"]), f.int(e["R"])
	c := &crypt{meta: true}
	if m, ok := f.resolve(e["EncryptMetadata"]).(bool); ok {
		c.meta = m
	}
	bits := f.int(e["Length"])
	if bits == 0 {
		bits = 40
	}
	if v >= 4 {
		cf := f.dict(f.dict(e["CF"])[f.name(e["StmF"])])
		switch f.name(cf["CFM"]) {
		case "AESV2":
			c.aes, bits = true, 128
		case "AESV3":
			c.aes, c.v5, bits = true, true, 256
		case "V2":
			bits = 128
		default:
			c.identity = true
		}
	}
	if bits < 40 || bits > 256 || bits%8 != 0 || v < 1 || v > 5 || v == 3 {
		return fmt.Errorf("%w: method %d with a key of %d bits", ErrEncrypted, v, bits)
	}
	o, _ := f.resolve(e["O"]).(str)
	u, _ := f.resolve(e["U"]).(str)
	if c.v5 {
		ue, _ := f.resolve(e["UE"]).(str)
		c.key = keyV5(u, ue, r)
	} else {
		id := ""
		if ids := f.array(f.trailer["ID"]); len(ids) > 0 {
			s, _ := f.resolve(ids[0]).(str)
			id = string(s)
		}
		c.key = keyV4(o, u, id, f.int(e["P"]), r, bits/8, c.meta)
	}
	if c.key == nil {
		return fmt.Errorf("%w: a password is needed", ErrEncrypted)
	}
	f.crypt = c
	// What was read before was read without the key; the dictionary itself is plain.
	f.cache, f.members = map[int]any{}, map[int]*members{}
	return nil
}

// keyV4 derives the key from the empty password (ISO 32000-1, 7.6.3.3) and
// checks it against U; nil when another password is needed.
func keyV4(o, u str, id string, p, r, size int, meta bool) []byte {
	if len(o) < 32 || len(u) < 32 {
		return nil
	}
	h := md5.New()
	h.Write(padding)
	h.Write([]byte(o[:32]))
	var perm [4]byte
	binary.LittleEndian.PutUint32(perm[:], uint32(int32(p)))
	h.Write(perm[:])
	h.Write([]byte(id))
	if r >= 4 && !meta {
		h.Write([]byte{0xff, 0xff, 0xff, 0xff})
	}
	key := h.Sum(nil)
	size = min(size, 16)
	if r >= 3 {
		for range 50 {
			s := md5.Sum(key[:size])
			key = s[:]
		}
	} else {
		size = 5
	}
	key = key[:size]
	if r < 3 {
		if !bytes.Equal(rc4Bytes(key, padding), []byte(u[:32])) {
			return nil
		}
		return key
	}
	h.Reset()
	h.Write(padding)
	h.Write([]byte(id))
	sum := rc4Bytes(key, h.Sum(nil))
	for i := byte(1); i <= 19; i++ {
		k := make([]byte, len(key))
		for j := range k {
			k[j] = key[j] ^ i
		}
		sum = rc4Bytes(k, sum)
	}
	if !bytes.Equal(sum, []byte(u[:16])) {
		return nil
	}
	return key
}

// keyV5 is the same for AES-256 (ISO 32000-2, 7.6.4.3.3).
func keyV5(u, ue str, r int) []byte {
	if len(u) < 48 || len(ue) < 32 {
		return nil
	}
	if !bytes.Equal(hashV5([]byte(u[32:40]), r), []byte(u[:32])) {
		return nil
	}
	block, err := aes.NewCipher(hashV5([]byte(u[40:48]), r))
	if err != nil {
		return nil
	}
	key := make([]byte, 32)
	cipher.NewCBCDecrypter(block, make([]byte, 16)).CryptBlocks(key, []byte(ue[:32]))
	return key
}

// hashV5 is algorithm 2.B for the empty password.
func hashV5(salt []byte, r int) []byte {
	sum := sha256.Sum256(salt)
	k := sum[:]
	if r < 6 {
		return k
	}
	for i := 0; ; i++ {
		k1 := bytes.Repeat(k, 64)
		block, err := aes.NewCipher(k[:16])
		if err != nil {
			return nil
		}
		cipher.NewCBCEncrypter(block, k[16:32]).CryptBlocks(k1, k1)
		mod := 0
		for _, c := range k1[:16] {
			mod += int(c)
		}
		switch mod % 3 {
		case 0:
			s := sha256.Sum256(k1)
			k = s[:]
		case 1:
			s := sha512.Sum384(k1)
			k = s[:]
		default:
			s := sha512.Sum512(k1)
			k = s[:]
		}
		if i >= 63 && int(k1[len(k1)-1]) <= i-32 {
			return k[:32]
		}
	}
}

func rc4Bytes(key, b []byte) []byte {
	c, err := rc4.NewCipher(key)
	if err != nil {
		return nil
	}
	out := make([]byte, len(b))
	c.XORKeyStream(out, b)
	return out
}

func (c *crypt) bytes(b []byte, id ref) []byte {
	key := c.key
	if !c.v5 {
		h := md5.New()
		h.Write(key)
		h.Write([]byte{byte(id.num), byte(id.num >> 8), byte(id.num >> 16), byte(id.gen), byte(id.gen >> 8)})
		if c.aes {
			h.Write([]byte("sAlT"))
		}
		key = h.Sum(nil)[:min(len(c.key)+5, 16)]
	}
	if !c.aes {
		return rc4Bytes(key, b)
	}
	block, err := aes.NewCipher(key)
	if err != nil || len(b) < 32 {
		return nil
	}
	iv, body := b[:16], b[16:len(b)&^15]
	out := make([]byte, len(body))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(out, body)
	if pad := int(out[len(out)-1]); pad >= 1 && pad <= 16 {
		out = out[:len(out)-pad]
	}
	return out
}

func (c *crypt) stream(b []byte, s *stream) []byte {
	if c.identity || !c.meta && s.dict["Type"] == name("Metadata") {
		return b
	}
	return c.bytes(b, s.id)
}

// strings decrypts the strings inside an object.
func (c *crypt) strings(o any, id ref, depth int) any {
	if c.identity || depth > maxNesting {
		return o
	}
	switch o := o.(type) {
	case str:
		return str(c.bytes([]byte(o), id))
	case array:
		for i := range o {
			o[i] = c.strings(o[i], id, depth+1)
		}
	case dict:
		for k, v := range o {
			o[k] = c.strings(v, id, depth+1)
		}
	}
	return o
}
