package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/conformance/report"
	"github.com/fencedstore/fencedstore/plugins"
	"github.com/fencedstore/fencedstore/plugins/certificate"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

// certificateFile is a certificate that certify was asked for.
type certificateFile struct {
	path         string
	signer       *grant.Signer
	name, sha256 string // of the plug-in, once it was started
}

func (f *certifyFlags) certificateFile(targets int) (*certificateFile, error) {
	switch {
	case f.certificate == "" && f.key == "":
		return nil, nil
	case f.certificate == "" || f.key == "" || f.plugin.path == "":
		return nil, usagef("--certificate FILE, --sign-key KEY and --plugin PATH go together: a certificate is a signed statement of a binary")
	case targets != 1:
		return nil, usagef("--certificate takes one target, not %d", targets)
	case f.run != "":
		return nil, usagef("--certificate takes the whole suite; leave out --run")
	}
	text, err := os.ReadFile(f.key)
	if err != nil {
		return nil, usagef("--sign-key: %w", err)
	}
	signer, err := certificate.ParseSigner(text)
	if err != nil {
		return nil, usagef("--sign-key %s: %w", f.key, err)
	}
	if err := report.Writable(f.certificate); err != nil {
		return nil, usagef("--certificate %s", plainError(err))
	}
	return &certificateFile{path: f.certificate, signer: signer}, nil
}

// writeCertificate writes what the suite found, good or bad; nothing where it
// did not run to its end.
func (c *cli) writeCertificate(f *certificateFile, r *conformance.Report) int {
	if !r.Complete || f.sha256 == "" {
		c.err.printf("%s no certificate: the suite did not run to its end\n", c.err.red("adaptercheck:"))
		return exitIncomplete
	}
	b, err := certificate.Sign(newStatement(f, r), f.signer)
	if err == nil {
		err = os.WriteFile(f.path, append(b, '\n'), 0o644)
	}
	if err != nil {
		c.err.printf("%s --certificate: %s\n", c.err.red("adaptercheck:"), plainError(err))
		return exitUsage
	}
	c.out.printf("%s\n", c.out.dim("certificate written to "+f.path+", signed by "+f.signer.Key().ID()))
	return exitOK
}

func newStatement(f *certificateFile, r *conformance.Report) *certificate.Statement {
	d := &r.Description
	p := certificate.Predicate{
		Adapter: certificate.Adapter{Name: d.Name, Version: d.Version, Backend: d.Backend, Environment: string(d.Environment)},
		Suite:   r.SuiteVersion, Profile: string(r.Profile), Seed: strconv.FormatUint(r.Seed, 10), Started: r.Started.UTC(),
		Certified: r.Certified, Verdict: strings.ToValidUTF8(r.Verdict, "\uFFFD"), Beyond: certificate.Beyond(d.Environment),
		Figures: certificate.Figures(r.Figures),
	}
	for i := range r.Results {
		res := &r.Results[i]
		status := string(res.Status)
		if res.Status == conformance.Passed {
			status = certificate.Proven
		}
		reason := strings.ToValidUTF8(res.Reason, "\uFFFD")
		if res.Status == conformance.NotProven && reason == "" {
			reason = "no reason was given"
		}
		p.Cases = append(p.Cases, certificate.Case{ID: res.ID, Law: string(res.Law), Status: status, Reason: reason})
	}
	p.Laws = certificate.Summarize(p.Cases)
	return &certificate.Statement{Type: certificate.StatementType, PredicateType: certificate.PredicateType,
		Subject:   []certificate.Subject{{Name: f.name, Digest: certificate.Digest{SHA256: f.sha256}}},
		Predicate: p}
}

func (c *cli) verifyCmd() *cobra.Command {
	var keys []string
	var lock string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify [flags] FILE [BINARY]",
		Short: "Check a plug-in's certificate: signature, hash, and that nothing was left out",
		Long: `Verify checks the certificate in FILE: that a key that counts signed it, that it
lists every case of the suite that it names and contradicts itself nowhere, and,
with BINARY, that it is of those very bytes. The keys are given with --key, or
are the certifiers of a lock file. For a script, BINARY is the script; what is
hashed is the manifest beside it.

Exit codes: 0 good and certified; 1 the certificate is not good, or says that
the plug-in falls short; 2 wrong usage.`,
		Example: `  adaptercheck verify --key team.pub.pem sqlite.json ./fencedstore-sqlite
  adaptercheck verify --lock fencedstore.lock.json sqlite.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usagef("name the certificate, and the binary if you have it: 'adaptercheck verify --key KEY FILE [BINARY]'")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			counts, err := certifierKeys(keys, lock)
			if err != nil {
				return err
			}
			return c.verify(args, counts, asJSON)
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "a public key that counts, in `FILE` (PEM); may be repeated")
	cmd.Flags().StringVar(&lock, "lock", "", "take the certifiers of the lock `FILE`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the statement as JSON")
	return cmd
}

func certifierKeys(files []string, lock string) (out []*grant.Key, err error) {
	if lock != "" {
		if _, out, err = plugins.ReadLock(lock); err != nil {
			return nil, usagef("--lock %s: %w", lock, err)
		}
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, usagef("--key: %w", err)
		}
		k, err := certificate.ParseKey(text)
		if err != nil {
			return nil, usagef("--key %s: %w", f, err)
		}
		out = append(out, k)
	}
	if len(out) == 0 {
		return nil, usagef("give the keys that count, with --key FILE or --lock FILE: a signature by just anybody says nothing")
	}
	return out, nil
}

func (c *cli) verify(args []string, keys []*grant.Key, asJSON bool) error {
	b, err := os.ReadFile(args[0])
	if err != nil {
		return usagef("%w", err)
	}
	s, err := certificate.Verify(b, keys)
	if err != nil {
		return &exitError{Code: exitShort, Err: err}
	}
	p := &s.Predicate
	if len(args) == 2 {
		sum, err := fileSHA256(args[1])
		if err != nil {
			return usagef("%w", err)
		}
		if sum != s.Subject[0].Digest.SHA256 {
			return &exitError{Code: exitShort, Err: usagef("%s has the SHA-256 %s and the certificate is for %s", args[1], sum, s.Subject[0].Digest.SHA256)}
		}
	}
	if p.Suite == conformance.SuiteVersion {
		if left := s.Missing(caseIDs()); len(left) > 0 {
			return &exitError{Code: exitShort, Err: usagef("the certificate leaves out %d cases of suite %s, among them %s", len(left), p.Suite, left[0])}
		}
	}
	if asJSON {
		b, err := s.Pretty()
		if err != nil {
			return err
		}
		c.out.printf("%s\n", b)
	} else {
		c.printCertificate(s)
	}
	if !p.Certified {
		return &exitError{Code: exitShort}
	}
	return nil
}

// fileSHA256 is of the file, or of a script's manifest.
func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 2)
	if _, err := io.ReadFull(f, head); err == nil && string(head) == "#!" {
		list, err := os.ReadFile(path + plugins.ManifestSuffix)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(list)
		return hex.EncodeToString(sum[:]), nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (c *cli) printCertificate(s *certificate.Statement) {
	o, p := c.out, &s.Predicate
	o.printf("%s\n", o.bold(s.Subject[0].Name))
	o.wrapped("  ", p.Verdict)
	for _, line := range [][2]string{
		{"sha256", s.Subject[0].Digest.SHA256},
		{"adapter", strings.TrimSpace(p.Adapter.Name + " " + p.Adapter.Version)},
		{"backend", p.Adapter.Backend + " (" + p.Adapter.Environment + ")"},
		{"suite", p.Suite + ", profile " + p.Profile + ", seed " + p.Seed},
		{"started", p.Started.UTC().Format("2006-01-02 15:04:05 UTC")},
	} {
		o.wrapped("  "+line[0]+strings.Repeat(" ", 10-len(line[0])), line[1])
	}
	for _, l := range p.Laws {
		if l.Status != certificate.Proven {
			o.wrapped("  ", l.ID+" "+strings.ReplaceAll(l.Status, "_", " ")+": "+strings.Join(l.Reasons, "; "))
		}
	}
	for _, b := range p.Beyond {
		o.wrapped("  ", "an emulator cannot prove "+b)
	}
}
