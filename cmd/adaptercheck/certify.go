package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/conformance/report"
	"github.com/fencedstore/fencedstore/sdk"
)

// certifyFlags are the flags as typed.
type certifyFlags struct {
	profile, seed, run string
	schedules          int
	reports            []string
	plugin             pluginFlags
	certificate, key   string
}

func (c *cli) certifyCmd() *cobra.Command {
	var f certifyFlags
	cmd := &cobra.Command{
		Use:   "certify [flags] TARGET...",
		Short: "Play every law against a store and say whether it can be trusted",
		Long: `Certify plays every case of the conformance suite against each target, among
them races of many writers, seeded schedules of workers that pause, retry and
are superseded, and processes that are really killed; then it prints one line
per law and a verdict.

TARGET is a DSN (sqlite:./my.db) or the bare name of an adapter (sqlite), which
is given a fresh temporary store. With --plugin the store is opened through that
plug-in, and what is certified is the binary: --certificate then writes a signed
statement of it, which 'adaptercheck verify' and a lock file hold it against.
The suite writes into the store that it is
given, and receipts are permanent: name a store that is meant for tests.

A case that cannot be proven is not passed: without it there is no certificate.
With --run, which selects cases, there is none either; the verdict says partial.

Exit codes: 0 certified (with --run: every selected case passed); 1 falls short;
2 wrong usage, or a store that cannot be opened; 3 interrupted or incomplete.
A store that keeps nothing when the process ends is for tests only: code 1.
Reports are written in every case but wrong usage. Of several targets the
highest code counts.`,
		Example: `  adaptercheck certify sqlite
  adaptercheck certify --profile release --report sqlite.html --report sqlite.json sqlite
  adaptercheck certify --plugin ./fencedstore-sqlite --certificate sqlite.json --sign-key key.pem sqlite
  adaptercheck certify --run 'fence/|races/' --seed 42 sqlite:./scratch.db`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name what to certify, for example 'adaptercheck certify sqlite'; 'adaptercheck adapters' lists what there is")
			}
			return nil
		},
		ValidArgsFunction: c.completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := c.plan(&f, args)
			if err != nil {
				return err
			}
			return c.certify(cmd.Context(), plan)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", string(conformance.Standard), "how much to run: "+profileNames())
	flags.StringVar(&f.seed, "seed", "", "seed of races and schedules (drawn and printed if not given)")
	flags.StringVar(&f.run, "run", "", "run only the cases whose ID matches this `REGEXP`; never gives a certificate")
	flags.IntVar(&f.schedules, "schedules", 0, "how many seeded schedules to run, `N` in place of the profile's number")
	f.plugin.add(flags)
	flags.StringVar(&f.certificate, "certificate", "", "write a signed certificate of the plug-in to `FILE`; goes with --plugin and --sign-key")
	flags.StringVar(&f.key, "sign-key", "", "sign the certificate with the private key in `KEY` (PEM, PKCS #8, Ed25519 or ECDSA P-256)")
	flags.StringArrayVar(&f.reports, "report", nil, "write a report to `FILE` (.json, .xml for JUnit, .html or .md); may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(profiles(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func profiles() []string {
	return []string{string(conformance.Quick), string(conformance.Standard), string(conformance.Release)}
}

func profileNames() string { return strings.Join(profiles(), ", ") }

// certification is what was asked for, checked before anything is opened.
type certification struct {
	targets []target
	options conformance.Options
	run     string
	cases   int // selected
	reports []string
	plugin  *pluginRef
	certify *certificateFile // nil: none asked for
}

func (c *cli) plan(f *certifyFlags, args []string) (*certification, error) {
	p := &certification{run: f.run, reports: f.reports}
	p.options.Profile = conformance.Profile(f.profile)
	switch p.options.Profile {
	case conformance.Quick, conformance.Standard, conformance.Release:
	default:
		return nil, usagef("--profile %q: choose one of %s", f.profile, profileNames())
	}
	// Drawn here and printed first, so that it is known whatever happens.
	p.options.Seed = rand.Uint64()>>1 | 1
	if f.seed != "" {
		seed, err := parseSeed(f.seed)
		if err != nil {
			return nil, err
		}
		p.options.Seed = seed
	}
	if p.options.Schedules = f.schedules; f.schedules < 0 {
		return nil, usagef("--schedules %d: give a number of 1 or more, or leave the flag out for the profile's own", f.schedules)
	}
	if err := p.selectCases(f.run); err != nil {
		return nil, err
	}
	var err error
	if p.plugin, err = f.plugin.ref(); err != nil {
		return nil, err
	}
	if p.certify, err = f.certificateFile(len(args)); err != nil {
		return nil, err
	}
	if p.targets, err = c.parseTargets(args, p.plugin); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, path := range f.reports {
		if abs, err := filepath.Abs(path); err == nil {
			if seen[abs] {
				return nil, usagef("--report %s is given twice", path)
			}
			seen[abs] = true
		}
		if err := report.Writable(path); err != nil {
			return nil, usagef("--%s", plainError(err))
		}
	}
	return p, nil
}

func parseSeed(s string) (uint64, error) {
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil || seed == 0 {
		return 0, usagef("--seed %q: give a whole number from 1 to 18446744073709551615", s)
	}
	return seed, nil
}

func (p *certification) selectCases(expr string) error {
	all := conformance.Cases()
	if expr == "" {
		p.cases = len(all)
		return nil
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return usagef("--run %q is not a regular expression: %w", expr, err)
	}
	for i := range all {
		if re.MatchString(all[i].ID) {
			p.cases++
		}
	}
	if p.cases == 0 {
		return usagef("--run %q matches none of the %d cases%s; 'adaptercheck checks' lists them", expr, len(all), didYouMean(expr, caseIDs()))
	}
	p.options.Match = re
	return nil
}

func (c *cli) certify(ctx context.Context, p *certification) error {
	code := exitOK
	var reports []*conformance.Report
	for i, t := range p.targets {
		if i > 0 {
			c.out.printf("\n")
		}
		r, tcode := c.certifyOne(ctx, p, t)
		reports = append(reports, r)
		code = max(code, tcode)
	}
	if len(p.targets) > 1 {
		c.out.printf("\n")
		for _, r := range reports {
			c.out.printf("%s  %s\n", c.statusWord(r), r.Target)
		}
	}
	for _, path := range p.reports {
		if err := report.Write(path, reports...); err != nil {
			c.err.printf("%s --%s\n", c.err.red("adaptercheck:"), plainError(err))
			code = max(code, exitUsage)
			continue
		}
		c.out.printf("%s\n", c.out.dim("report written to "+path))
	}
	if p.certify != nil {
		code = max(code, c.writeCertificate(p.certify, reports[0]))
	}
	if code != exitOK {
		return &exitError{Code: code}
	}
	return nil
}

// certifyOne runs the suite on one target and prints what it found. It always
// returns a report.
func (c *cli) certifyOne(ctx context.Context, p *certification, t target) (*conformance.Report, int) {
	if ctx.Err() != nil {
		r := c.notRun(p, t, "not run: interrupted before its turn")
		c.printVerdict(r)
		return r, exitIncomplete
	}
	s, err := t.bind()
	if err != nil {
		return c.unopened(p, t, err), exitUsage
	}
	opts := p.options
	opts.ReplayCommand = t.replayCommand
	prog := newProgress(c.err, p.cases)
	opts.Progress = prog.event
	c.out.printf("%s  %s\n", c.out.bold("certify "+t.Name()),
		c.out.dim(fmt.Sprintf("%d cases, profile %s, seed %d", p.cases, opts.Profile, opts.Seed)))
	r, err := conformance.Check(ctx, s.harness(), &opts)
	prog.end()
	if p.certify != nil {
		p.certify.sha256, p.certify.name = s.sha256, filepath.Base(t.plugin.path)
	}
	if rerr := s.remove(); rerr != nil {
		c.err.printf("the temporary store could not be removed: %v\n", rerr)
	}
	if err != nil {
		if ctx.Err() != nil {
			r = c.notRun(p, t, "not certified: interrupted before the store was open")
			c.printVerdict(r)
			return r, exitIncomplete
		}
		return c.unopened(p, t, err), exitUsage
	}
	c.printReport(r)
	return r, statusCode(r)
}

func statusCode(r *conformance.Report) int {
	switch {
	case report.Good(r):
		return exitOK
	case !r.Complete:
		return exitIncomplete
	}
	return exitShort
}

// unopened reports a store on which nothing could be run.
func (c *cli) unopened(p *certification, t target, err error) *conformance.Report {
	var e *exitError
	if errors.As(err, &e) {
		err = e.Err
	}
	c.err.printf("%s %s cannot be opened: %s\n", c.err.red("adaptercheck:"), t.Name(), plainError(err))
	return c.notRun(p, t, fmt.Sprintf("not certified: the store cannot be opened: %s", plainError(err)))
}

func (c *cli) notRun(p *certification, t target, verdict string) *conformance.Report {
	return &conformance.Report{SuiteVersion: conformance.SuiteVersion, Target: t.Name(),
		Description: sdk.Description{}, Profile: p.options.Profile, Seed: p.options.Seed,
		Started: time.Now().UTC(), Verdict: verdict}
}

// replayCommand is what plays one schedule again.
func (t target) replayCommand(seed uint64, schedule int) string {
	flags := ""
	if t.plugin != nil {
		flags = "--plugin " + shellWord(t.plugin.path) + " "
	}
	return fmt.Sprintf("adaptercheck replay --seed %d --schedule %d %s%s", seed, schedule, flags, shellWord(t.Name()))
}
