package plugins

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	// maxSocketPath is the longest path of a Unix socket that every system takes
	// on which this package runs: macOS has 104 bytes, with the zero at the end.
	maxSocketPathLinux = 107
	maxSocketPathOther = 103
	// maxImageBytes bounds what is copied.
	maxImageBytes = 1 << 30
	// privatePrefix begins the private folder's name; lockName is a file in it
	// that its host holds locked.
	privatePrefix = "fsp"
	lockName      = ".host"
	// ManifestSuffix is behind a script's path in the name of the list of what it
	// loads: lines of SHA-256, two spaces and a path relative to the script, as
	// sha256sum prints them, the script itself first.
	ManifestSuffix = ".manifest"
)

// image is a plug-in as it will be executed: a private copy and its digest.
type image struct {
	dir    string // 0700, removed by remove
	path   string // inside dir
	name   string // the file's own
	digest string // 64 hex digits: of the binary, or of a script's manifest
	lock   *os.File
}

func (im *image) remove() {
	_ = os.RemoveAll(im.dir)
	if im.lock != nil {
		_ = im.lock.Close()
	}
}

// load copies the plug-in at path into a private folder below temp and hashes
// the very bytes that it copies.
func load(path, temp string) (im *image, fault *Fault) {
	src, fault := openProgram(path)
	if fault != nil {
		return nil, fault
	}
	defer src.Close()
	dir, fault := privateDir(temp)
	if fault != nil {
		return nil, fault
	}
	var err error
	im = &image{dir: dir, name: filepath.Base(path)}
	if im.lock, err = hold(dir); err != nil {
		im.remove()
		return nil, faultf(TempDir, "%w", err)
	}
	defer func() {
		if fault != nil {
			im.remove()
			im = nil
		}
	}()
	im.path = filepath.Join(dir, im.name)
	head := make([]byte, 4096)
	n, err := io.ReadFull(src, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return im, faultf(NotExecutable, "it cannot be read: %w", err)
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte("#!")) {
		return im, im.loadScript(path, io.MultiReader(bytes.NewReader(head), src))
	}
	if fault := checkFormat(head, src); fault != nil {
		return im, fault
	}
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return im, faultf(NotExecutable, "it cannot be read: %w", err)
	}
	im.digest, fault = copyHashed(im.path, src, 0o500)
	return im, fault
}

// openProgram opens what path names now, once: what is executed later comes
// from this file and not from the path.
func openProgram(path string) (*os.File, *Fault) {
	src, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, faultf(NotFound, "there is no such file")
	case err != nil:
		return nil, faultf(NotExecutable, "it cannot be opened: %w", err)
	}
	info, err := src.Stat()
	switch {
	case err != nil:
		src.Close()
		return nil, faultf(NotExecutable, "it cannot be looked at: %w", err)
	case !info.Mode().IsRegular():
		src.Close()
		return nil, faultf(NotExecutable, "it is no regular file")
	case runtime.GOOS != "windows" && info.Mode()&0o111 == 0:
		src.Close()
		return nil, faultf(NotExecutable, "it has no permission to be executed; chmod +x it if it is a plug-in")
	case info.Size() > maxImageBytes:
		src.Close()
		return nil, faultf(NotExecutable, "it has %d bytes; %d are the most", info.Size(), maxImageBytes)
	}
	return src, nil
}

// privateDir makes the folder for the copy and the socket, and checks first
// that a socket in it can be named.
func privateDir(temp string) (string, *Fault) {
	if temp == "" {
		temp = os.TempDir()
	}
	temp, err := filepath.Abs(temp)
	if err != nil {
		return "", faultf(TempDir, "%w", err)
	}
	limit := maxSocketPathOther
	if runtime.GOOS == "linux" {
		limit = maxSocketPathLinux
	}
	// go-plugin appends /plugin-dirN/pluginN, MkdirTemp N of up to 10 digits.
	if n := len(filepath.Join(temp, privatePrefix+"4294967295", "plugin-dir4294967295", "plugin4294967295")); n > limit {
		return "", faultf(SocketPath, "a socket below %s (from TMPDIR or Options.TempDir) would have a path of %d bytes and %d are the most; choose a shorter folder", temp, n, limit)
	}
	sweep(temp)
	dir, err := os.MkdirTemp(temp, privatePrefix)
	if err != nil {
		return "", faultf(TempDir, "no folder can be made below %s (from TMPDIR or Options.TempDir): %w", temp, err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		os.Remove(dir)
		return "", faultf(TempDir, "%w", err)
	}
	return dir, nil
}

// hold marks dir as in use by this process for as long as the file is open.
func hold(dir string) (*os.File, error) {
	// Locked under another name first: a sweeper must not find it free.
	f, err := os.OpenFile(filepath.Join(dir, lockName+"-new"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	tryLock(f)
	if err := os.Rename(f.Name(), filepath.Join(dir, lockName)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes private folders below temp whose host is gone: those that
// nobody holds the lock of.
func sweep(temp string) {
	held, _ := filepath.Glob(filepath.Join(temp, privatePrefix+"*", lockName))
	for _, name := range held {
		if f, err := os.OpenFile(name, os.O_RDWR, 0); err == nil {
			if tryLock(f) {
				_ = os.RemoveAll(filepath.Dir(name))
			}
			_ = f.Close()
		}
	}
}

// copyHashed writes r to a new file and returns the digest of what was written.
func copyHashed(to string, r io.Reader, mode fs.FileMode) (string, *Fault) {
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", faultf(TempDir, "it cannot be copied: %w", err)
	}
	h := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(dst, h), io.LimitReader(r, maxImageBytes+1), make([]byte, 1<<20))
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err == nil && n > maxImageBytes {
		err = fmt.Errorf("more than %d bytes", maxImageBytes)
	}
	if err != nil {
		return "", faultf(TempDir, "it cannot be copied: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// loadScript copies a script and every file of its manifest, each held against
// its hash, and nothing else. The interpreter is the machine's, as a binary's
// system libraries are.
func (im *image) loadScript(path string, script io.Reader) *Fault {
	list, err := os.ReadFile(path + ManifestSuffix)
	if err != nil {
		return faultf(NoManifest, "a script needs %s beside it, with the SHA-256 of every file that it loads (sha256sum prints such lines), itself first: %w", im.name+ManifestSuffix, err)
	}
	sum := sha256.Sum256(list)
	im.digest = hex.EncodeToString(sum[:])
	sc := bufio.NewScanner(bytes.NewReader(list))
	for line := 1; sc.Scan(); line++ {
		want, name, ok := strings.Cut(sc.Text(), "  ")
		if !ok || len(want) != 64 || !filepath.IsLocal(name) || strings.ContainsAny(name, "\\\x00") || filepath.Clean(name) != name {
			return faultf(BadManifest, "line %d is not a SHA-256, two spaces and a path below the script's folder", line)
		}
		if (line == 1) != (name == im.name) {
			return faultf(BadManifest, "line %d: the script %s itself comes first, and once", line, im.name)
		}
		src, mode := script, fs.FileMode(0o500)
		if line > 1 {
			f, err := os.Open(filepath.Join(filepath.Dir(path), name))
			if err != nil {
				return faultf(BadManifest, "line %d: %w", line, err)
			}
			defer f.Close()
			if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
				return faultf(BadManifest, "line %d: %s is no regular file", line, name)
			}
			src, mode = f, 0o400
		}
		to := filepath.Join(im.dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return faultf(TempDir, "%w", err)
		}
		got, fault := copyHashed(to, src, mode)
		if fault != nil {
			return fault
		}
		if got != strings.ToLower(want) {
			return faultf(HashMismatch, "%s has the SHA-256 %s and the manifest lists %s", name, got, want)
		}
	}
	if err := sc.Err(); err != nil || len(list) == 0 {
		return faultf(BadManifest, "empty, or not lines of text (%v)", err)
	}
	return nil
}

// checkFormat tells a program for this machine from one for another and from
// what is none.
func checkFormat(head []byte, r io.ReaderAt) *Fault {
	switch {
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		if len(head) < 64 {
			return faultf(NotExecutable, "a damaged ELF file")
		}
		machine := elf.Machine(binary.LittleEndian.Uint16(head[18:]))
		if head[elf.EI_DATA] == byte(elf.ELFDATA2MSB) {
			machine = elf.Machine(binary.BigEndian.Uint16(head[18:]))
		}
		want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "386": elf.EM_386, "arm": elf.EM_ARM,
			"riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "ppc64": elf.EM_PPC64, "s390x": elf.EM_S390, "loong64": elf.EM_LOONGARCH}[runtime.GOARCH]
		if runtime.GOOS == "darwin" || runtime.GOOS == "windows" || want != elf.EM_NONE && machine != want {
			return faultf(WrongArchitecture, "an ELF program for %s; this machine is %s/%s", machine, runtime.GOOS, runtime.GOARCH)
		}
		return nil
	case len(head) >= 4 && (bytes.Equal(head[:4], []byte{0xcf, 0xfa, 0xed, 0xfe}) || bytes.Equal(head[:4], []byte{0xca, 0xfe, 0xba, 0xbe})):
		if runtime.GOOS != "darwin" {
			return faultf(WrongArchitecture, "a macOS program; this machine is %s/%s", runtime.GOOS, runtime.GOARCH)
		}
		want := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[runtime.GOARCH]
		if f, err := macho.NewFile(r); err == nil && want != 0 && f.Cpu != want {
			return faultf(WrongArchitecture, "a program for %s; this machine is %s/%s", f.Cpu, runtime.GOOS, runtime.GOARCH)
		}
		return nil
	case bytes.HasPrefix(head, []byte("MZ")):
		if runtime.GOOS != "windows" {
			return faultf(WrongArchitecture, "a Windows program; this machine is %s/%s", runtime.GOOS, runtime.GOARCH)
		}
		return nil
	}
	return faultf(NotExecutable, "neither a program nor a script that begins with #!")
}
