using System.IO;

namespace Scoregate
{
    /// <summary>Writes files that survive a loss of power, and that nobody else reads.</summary>
    internal static class Disk
    {
        internal static void MakeFolder(string folder)
        {
            if (!Directory.Exists(folder))
            {
                Directory.CreateDirectory(folder);
                Posix.Restrict(folder, Posix.OwnersFolder);
            }
        }

        /// <summary>Write a file whole or not at all. It may replace one.</summary>
        internal static void Write(string path, byte[] content)
        {
            var temporary = path + ".new";
            using (var file = new FileStream(temporary, FileMode.Create, FileAccess.Write, FileShare.None))
            {
                Posix.Restrict(temporary, Posix.OwnersFile); // before anything is in it
                file.Write(content, 0, content.Length);
                file.Flush(true);
            }

            if (File.Exists(path))
            {
                File.Replace(temporary, path, null);
            }
            else
            {
                File.Move(temporary, path);
            }

            Posix.SyncFolder(Path.GetDirectoryName(path));
        }
    }
}
