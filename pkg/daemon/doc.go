// Package daemon opens the parts, joins them, serves and drains. It is the only place where domains, guards, the wire and
// the configuration meet: it maps the configuration to each package's own Settings.
//
// The seat of the lockdown is between Open and the first read of the input, in [Daemon.ServeStdio].
//
// Needs: the directory and /proc paths that the configuration names, the three standard streams, signals.
package daemon
