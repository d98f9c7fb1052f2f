#if !UNITY_5_3_OR_NEWER || UNITY_EDITOR || UNITY_STANDALONE
#define SCOREGATE_POSIX
#endif
using System;
#if SCOREGATE_POSIX
using System.Runtime.InteropServices;
#endif

namespace Scoregate
{
    /// <summary>
    /// What .NET Standard cannot ask of Linux and macOS. On Windows a player's folders are theirs already, and on
    /// phones and consoles those of a game are.
    /// </summary>
    internal static class Posix
    {
        internal const uint OwnersFolder = 0x1C0; // 0700

        internal const uint OwnersFile = 0x180; // 0600

#if SCOREGATE_POSIX
        private static readonly bool IsHere =
            Environment.OSVersion.Platform == PlatformID.Unix || Environment.OSVersion.Platform == PlatformID.MacOSX;

        /// <summary>Have only the owner read and write, where there are such modes.</summary>
        internal static void Restrict(string path, uint mode)
        {
            if (IsHere)
            {
                chmod(path, mode);
            }
        }

        /// <summary>Make what was renamed in a folder survive a loss of power.</summary>
        internal static void SyncFolder(string folder)
        {
            if (!IsHere)
            {
                return;
            }

            var descriptor = open(folder, 0);
            if (descriptor >= 0)
            {
                fsync(descriptor);
                close(descriptor);
            }
        }

        [DllImport("libc")]
        private static extern int chmod(string path, uint mode);

        [DllImport("libc")]
        private static extern int open(string path, int flags);

        [DllImport("libc")]
        private static extern int fsync(int descriptor);

        [DllImport("libc")]
        private static extern int close(int descriptor);
#else
        internal static void Restrict(string path, uint mode)
        {
        }

        internal static void SyncFolder(string folder)
        {
        }
#endif
    }
}
