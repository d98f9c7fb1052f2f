using System;
using System.Collections.Generic;
using System.IO;

namespace Scoregate
{
    /// <summary>Lets one flush of a folder go on at a time, in this process and among all that share the folder.</summary>
    internal sealed class FlushLock : IDisposable
    {
        private static readonly HashSet<string> Held = new HashSet<string>(StringComparer.Ordinal);

        private readonly string path;
        private readonly FileStream file;

        private FlushLock(string path, FileStream file)
        {
            this.path = path;
            this.file = file;
        }

        /// <summary>Return the lock, or null while somebody else has it. It ends with the process at the latest.</summary>
        internal static FlushLock TryTake(string folder)
        {
            var path = Path.GetFullPath(Path.Combine(folder, "flush.lock"));
            lock (Held)
            {
                if (!Held.Add(path))
                {
                    return null;
                }

                var file = TryOpen(path);
                if (file == null)
                {
                    Held.Remove(path);
                    return null;
                }

                return new FlushLock(path, file);
            }
        }

        /// <summary>Give the lock back.</summary>
        public void Dispose()
        {
            lock (Held)
            {
                file.Dispose();
                Held.Remove(path);
            }
        }

        private static FileStream TryOpen(string path)
        {
            FileStream file = null;
            try
            {
                file = new FileStream(path, FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.None);
                Posix.Restrict(path, Posix.OwnersFile);
                LockAmongProcesses(file);
                return file;
            }
            catch (IOException)
            {
                file?.Dispose();
                return null;
            }
        }

        // Mono shares files among processes whatever FileShare says, but has this lock; .NET on macOS has FileShare,
        // but not this lock; a WebGL player is alone.
        private static void LockAmongProcesses(FileStream file)
        {
#if !UNITY_WEBGL || UNITY_EDITOR
            try
            {
                file.Lock(0, 1);
            }
            catch (NotSupportedException)
            {
                // FileShare has done it.
            }
#endif
        }
    }
}
