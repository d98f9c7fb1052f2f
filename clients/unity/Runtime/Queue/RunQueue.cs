using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Security.Cryptography;
using System.Text;

namespace Scoregate
{
    /// <summary>
    /// Runs in the files of a folder. `….json` waits to be sent; `….sent.json` is the recording of a committed run that
    /// was accepted, and does not count towards the bound.
    /// </summary>
    internal sealed class RunQueue
    {
        internal const int Most = 100;

        internal const string SentEnding = ".sent.json";

        private const string Ending = ".json";
        private const long LargestFile = 2 * JsonReader.LargestBytes;

        private readonly string folder;
        private readonly object guard = new object();

        internal RunQueue(string folder)
        {
            this.folder = folder;
        }

        internal static bool IsOfDisk(Exception error) => error is IOException || error is UnauthorizedAccessException;

        internal static ScoregateError Unwritable(Exception error) =>
            ScoregateError.Own("queue-unwritable", "The queue cannot be written: " + error.Message);

        /// <summary>Return the names of entries, the oldest first: those to send, or those that were sent.</summary>
        internal List<string> Names(bool wereSent = false)
        {
            var names = new List<string>();
            if (!Directory.Exists(folder))
            {
                return names;
            }

            foreach (var path in Directory.GetFiles(folder))
            {
                var name = Path.GetFileName(path);
                var isSent = name.EndsWith(SentEnding, StringComparison.Ordinal);
                if (name.EndsWith(Ending, StringComparison.Ordinal) && isSent == wereSent)
                {
                    names.Add(name);
                }
            }

            names.Sort(StringComparer.Ordinal);
            return names;
        }

        /// <summary>Write an entry durably, unless the same one is there, and return it with its name.</summary>
        /// <exception cref="ScoregateError">With the reason queue-full or queue-unwritable.</exception>
        internal QueueEntry Add(QueueEntry entry, double nowS)
        {
            lock (guard)
            {
                try
                {
                    return Write(entry, nowS);
                }
                catch (Exception error) when (IsOfDisk(error))
                {
                    throw Unwritable(error);
                }
            }
        }

        /// <summary>Return an entry.</summary>
        /// <exception cref="JsonException">It is damaged.</exception>
        internal QueueEntry Read(string name)
        {
            var path = PathOf(name);
            if (new FileInfo(path).Length > LargestFile)
            {
                throw new JsonException("too large");
            }

            return QueueEntry.Read(name, File.ReadAllBytes(path));
        }

        internal void Remove(string name) => File.Delete(PathOf(name));

        /// <summary>Keep a damaged entry where it blocks nothing.</summary>
        internal void SetAside(string name)
        {
            var aside = PathOf(name) + ".damaged";
            File.Delete(aside);
            File.Move(PathOf(name), aside);
        }

        /// <summary>Keep the recording of a committed run that was accepted, and nothing else of it.</summary>
        internal void KeepRecording(QueueEntry entry, string submission)
        {
            var sent = entry.Name.Substring(0, entry.Name.Length - Ending.Length) + SentEnding;
            Disk.Write(PathOf(sent), entry.Accepted(submission).ToBytes());
            Remove(entry.Name);
        }

        internal FlushLock TryLock()
        {
            Disk.MakeFolder(folder);
            return FlushLock.TryTake(folder);
        }

        private QueueEntry Write(QueueEntry entry, double nowS)
        {
            Disk.MakeFolder(folder);
            var names = Names();
            var mark = "-" + MarkOf(entry.Ticket) + Ending;
            foreach (var name in names)
            {
                if (name.EndsWith(mark, StringComparison.Ordinal) && IsSame(name, entry, out var same))
                {
                    return same;
                }
            }

            if (names.Count >= Most)
            {
                throw ScoregateError.Own("queue-full", Most + " runs wait already; flush the queue.");
            }

            var writtenMs = (long)(nowS * 1000);
            while (names.Contains(NameAt(writtenMs, mark)))
            {
                writtenMs++;
            }

            var named = entry.Named(NameAt(writtenMs, mark));
            Disk.Write(PathOf(named.Name), named.ToBytes());
            return named;
        }

        private bool IsSame(string name, QueueEntry entry, out QueueEntry same)
        {
            same = null;
            try
            {
                same = Read(name);
                return same.IsSameAs(entry);
            }
            catch (Exception error) when (error is JsonException || error is FileNotFoundException)
            {
                return false; // damaged: a flush sets it aside; or sent meanwhile by somebody else
            }
        }

        private static string NameAt(long ms, string mark) => ms.ToString("D13", CultureInfo.InvariantCulture) + mark;

        private static string MarkOf(string ticket)
        {
            using (var sha256 = SHA256.Create())
            {
                return Hex.Of(sha256.ComputeHash(Encoding.UTF8.GetBytes(ticket))).Substring(0, 8);
            }
        }

        private string PathOf(string name) => Path.Combine(folder, name);
    }
}
