using System;

namespace Scoregate
{
    /// <summary>
    /// A run that waits in the queue. It holds the run's key, which signs its submission and nothing else, and never the
    /// player's token.
    /// </summary>
    public sealed class QueueEntry
    {
        private const long Version = 1;

        private QueueEntry()
        {
        }

        /// <summary>The name of its file, which begins with the time at which it was written.</summary>
        public string Name { get; private set; }

        /// <summary>The board.</summary>
        public string Board { get; private set; }

        /// <summary>The ticket of the run.</summary>
        public string Ticket { get; private set; }

        /// <summary>When it was written, in Unix seconds.</summary>
        public long WrittenAt { get; private set; }

        /// <summary>The submission of a committed run that was accepted, and whose recording may be asked for; or null.</summary>
        public string Submission { get; private set; }

        /// <summary>The exact text of the claim; null once it was accepted.</summary>
        internal string Body { get; private set; }

        /// <summary>The key of the run, in base64; null once it was accepted.</summary>
        internal string Key { get; private set; }

        /// <summary>The recording of a committed run, in base64, or null.</summary>
        internal string Recording { get; private set; }

        internal static QueueEntry Of(Run run, string body, byte[] recording, long writtenAt) => new QueueEntry
        {
            Board = run.Board,
            Ticket = run.Ticket,
            Key = Convert.ToBase64String(run.Key),
            Body = body,
            WrittenAt = writtenAt,
            Recording = recording == null ? null : Convert.ToBase64String(recording),
        };

        /// <summary>Return an entry from the text of its file.</summary>
        /// <exception cref="JsonException">It is damaged.</exception>
        internal static QueueEntry Read(string name, byte[] text)
        {
            var json = JsonReader.Read(text).AsObject();
            if (json["version"].AsLong() != Version)
            {
                throw new JsonException("an entry of another version");
            }

            var entry = new QueueEntry
            {
                Name = name,
                Board = json["board"].AsText(),
                Ticket = json["ticket"].AsText(),
                WrittenAt = json["written_at"].AsLong(),
                Submission = json["submission"].AsTextOrNull(),
                Recording = json["recording"].AsTextOrNull(),
                Body = json["body"].AsTextOrNull(),
                Key = json["key"].AsTextOrNull(),
            };
            entry.Require();
            return entry;
        }

        internal QueueEntry Named(string name)
        {
            var entry = (QueueEntry)MemberwiseClone();
            entry.Name = name;
            return entry;
        }

        /// <summary>Return what is left of a committed run once it was accepted: its recording.</summary>
        internal QueueEntry Accepted(string submission) => new QueueEntry
        {
            Name = Name,
            Board = Board,
            Ticket = Ticket,
            WrittenAt = WrittenAt,
            Submission = submission,
            Recording = Recording,
        };

        internal bool IsSameAs(QueueEntry other) => Ticket == other.Ticket && Body == other.Body;

        internal byte[] ToBytes() => JsonWriter.WriteBytes(new JsonObject()
            .Add("version", Version)
            .Add("board", Board)
            .Add("ticket", Ticket)
            .AddIfGiven("key", Key)
            .AddIfGiven("body", Body)
            .AddIfGiven("submission", Submission)
            .Add("written_at", WrittenAt)
            .AddIfGiven("recording", Recording)
            .Build());

        private void Require()
        {
            var isWhole = Submission == null ? Key != null && Body != null : Recording != null;
            if (!isWhole || Board.Length == 0 || Ticket.Length == 0)
            {
                throw new JsonException("a part of an entry is missing");
            }

            foreach (var base64 in new[] { Key, Recording })
            {
                if (base64 != null)
                {
                    Document.BytesOf(JsonValue.Of(base64));
                }
            }

            JsonReader.Read(Body ?? "{}").AsObject();
        }
    }
}
